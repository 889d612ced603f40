package verify

import (
	"cmp"
	"slices"
	"sync"
)

// builtin is the table, made once and never changed: what leaves it is copied.
var builtin = sync.OnceValue(table)

// Providers returns a copy of every built-in row, sorted by name.
func Providers() []Row {
	rows := slices.Clone(builtin())
	for i := range rows {
		rows[i] = rows[i].clone()
	}
	return rows
}

// Lookup returns a copy of the built-in row of that name.
func Lookup(name string) (Row, bool) {
	rows := builtin()
	i, ok := slices.BinarySearchFunc(rows, name, func(r Row, name string) int { return cmp.Compare(r.Name, name) })
	if !ok {
		return Row{}, false
	}
	return rows[i].clone(), true
}

// standardWebhooks is the scheme of the Standard Webhooks specification under
// the given prefix of its three headers.
func standardWebhooks(prefix, version string) Scheme {
	return Scheme{
		Sig: "header:" + prefix + "-Signature", Format: FormatList, Key: version, Encoding: Base64,
		Signed: "{id}.{timestamp}.{body}", Timestamp: "header:" + prefix + "-Timestamp", Tolerance: defaultTolerance,
	}
}

// table puts the slices together, which are cut by the first letter of the names.
func table() []Row {
	rows := slices.Concat(rowsGeneric(), rowsCustom(), rowsAToC(), rowsDToI(), rowsJToP(), rowsQToZ())
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// rowsGeneric are the rows for any sender and those that others are modelled on.
func rowsGeneric() []Row {
	return []Row{
		{
			Name: "basic", Title: "Any sender with HTTP Basic authentication",
			Modes: []Mode{{Name: "basic", Basic: &Basic{}}},
			NoID:  NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Retries: unknownWindow, Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
			Options:           optionsLocate,
		},
		{
			Name: "github", Title: "GitHub",
			Docs: "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Hub-Signature-256", Prefix: "sha256=", Signed: "{body}"},
			}}},
			ID: []string{"header:X-GitHub-Delivery"}, Type: []string{"header:X-GitHub-Event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			BodyLimit:        25 << 20,
			EventHeaders:     []string{"X-GitHub-Delivery", "X-GitHub-Event", "X-GitHub-Hook-ID", "X-GitHub-Hook-Installation-Target-ID", "X-GitHub-Hook-Installation-Target-Type", "X-GitHub-Enterprise-Host", "X-GitHub-Enterprise-Version"},
			SignatureHeaders: []string{"X-Hub-Signature-256", "X-Hub-Signature"},
		},
		{
			Name: "gitlab", Title: "GitLab",
			Docs: "https://docs.gitlab.com/user/project/integrations/webhooks/",
			Modes: []Mode{
				{Name: "signing_token", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}, ID: []string{"header:Webhook-Id"}},
				{Name: "token", Token: &Token{In: "header:X-Gitlab-Token"}},
			},
			ID: []string{"header:Idempotency-Key"}, Type: []string{"header:X-Gitlab-Event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 2 * day, Window: 3 * day, Patience: 10 * second,
			BodyLimit:         25 << 20,
			EventHeaders:      []string{"Idempotency-Key", "Webhook-Id", "X-Gitlab-Event", "X-Gitlab-Event-UUID", "X-Gitlab-Instance", "X-Gitlab-Webhook-UUID"},
			SignatureHeaders:  []string{"Webhook-Signature", "Webhook-Timestamp"},
			CredentialHeaders: []string{"X-Gitlab-Token"},
		},
		{
			Name: "hmac", Title: "Any sender with an HMAC signature",
			Modes: []Mode{{Name: "hmac", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Signature", Signed: "{body}"},
			}}},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Retries: unknownWindow, Window: unknownWindow, Patience: 10 * second,
			Options: slices.Concat(optionsLocate, optionsHMAC),
		},
		{
			Name: "hubspot", Title: "HubSpot",
			Docs:        "https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation",
			Unconfirmed: []string{"which parts name an event for ever", "which escapes of the URL are decoded before signing (v3)", "how long HubSpot retries"},
			Modes: []Mode{
				{Name: "v3", HMAC: &HMAC{Scheme: Scheme{
					Sig: "header:X-HubSpot-Signature-v3", Encoding: Base64, Signed: "{method}{url_decoded}{body}{timestamp}",
					Timestamp: "header:X-HubSpot-Request-Timestamp", Unit: Milliseconds, Tolerance: defaultTolerance,
				}}},
				{Name: "v2", HMAC: &HMAC{Plain: true, Scheme: Scheme{Sig: "header:X-HubSpot-Signature", Signed: "{secret}{method}{url}{body}"}}},
				{Name: "v1", HMAC: &HMAC{Plain: true, Scheme: Scheme{Sig: "header:X-HubSpot-Signature", Signed: "{secret}{body}"}}},
			},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:eventId+json:subscriptionId+json:objectId+json:occurredAt"}, Type: []string{"json:subscriptionType"},
			// Bodies without an array are cards and workflow actions, which may be
			// the same twice and mean it.
			NoID: NoIDDeliver, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 5 * second,
			Batch:            &Batch{Optional: true},
			EventHeaders:     []string{"X-HubSpot-Request-Timestamp", "X-HubSpot-Signature-Version"},
			SignatureHeaders: []string{"X-HubSpot-Signature", "X-HubSpot-Signature-v3", "X-HubSpot-Request-Timestamp"},
		},
		{
			Name: "idempotency-key", Title: "Any sender with an Idempotency-Key",
			Docs: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/",
			Modes: []Mode{
				{Name: "hmac", Explicit: true, HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Signature", Signed: "{id}.{body}"}}},
				{Name: "bearer", Explicit: true, Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
				{Name: "basic", Explicit: true, Basic: &Basic{}},
				{Name: "none", Explicit: true, None: true},
			},
			Methods: []string{"POST", "PUT", "PATCH", "DELETE"},
			ID:      []string{"header:Idempotency-Key"},
			NoID:    NoIDRefuse, OnConflict: OnConflictReject, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: day, Window: unknownWindow, Patience: 30 * second,
			EventHeaders:      []string{"Idempotency-Key"},
			CredentialHeaders: []string{"Authorization"},
			Options:           slices.Concat([]string{"type"}, optionsHMAC),
		},
		{
			Name: "none", Title: "Any sender, unsigned",
			Modes: []Mode{{Name: "none", None: true}},
			NoID:  NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Retries: unknownWindow, Window: unknownWindow, Patience: 10 * second,
			Options: optionsLocate,
		},
		{
			Name: "sendgrid", Title: "SendGrid Event Webhook",
			Docs: "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features",
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: ECDSASHA256, Scheme: Scheme{
				Sig: "header:X-Twilio-Email-Event-Webhook-Signature", Encoding: Base64, Signed: "{timestamp}{body}",
				Timestamp: "header:X-Twilio-Email-Event-Webhook-Timestamp",
			}}}},
			ID: []string{"json:sg_event_id"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			Batch:            &Batch{},
			SignatureHeaders: []string{"X-Twilio-Email-Event-Webhook-Signature", "X-Twilio-Email-Event-Webhook-Timestamp"},
		},
		{
			Name: "shopify", Title: "Shopify",
			Docs: "https://shopify.dev/docs/apps/build/webhooks/verify-deliveries",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Shopify-Hmac-Sha256", Encoding: Base64, Signed: "{body}"},
			}}},
			ID: []string{"header:X-Shopify-Webhook-Id"}, Type: []string{"header:X-Shopify-Topic"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 4 * hour, Window: 2 * day, Patience: 5 * second,
			BodyLimit:        10 << 20,
			EventHeaders:     []string{"X-Shopify-API-Version", "X-Shopify-Event-Id", "X-Shopify-Shop-Domain", "X-Shopify-Topic", "X-Shopify-Triggered-At", "X-Shopify-Webhook-Id", "X-Shopify-Test", "X-Shopify-Sub-Topic", "X-Shopify-Name"},
			SignatureHeaders: []string{"X-Shopify-Hmac-Sha256"},
		},
		{
			Name: "slack", Title: "Slack",
			Docs: "https://docs.slack.dev/authentication/verifying-requests-from-slack/",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Slack-Signature", Prefix: "v0=", Signed: "v0:{timestamp}:{body}",
				Timestamp: "header:X-Slack-Request-Timestamp", Tolerance: defaultTolerance,
			}}}},
			ID:   []string{"json:event_id", "form:trigger_id", "form:payload|json:trigger_id"},
			Type: []string{"json:event.type", "json:type", "form:payload|json:type", "form:command"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 10 * minute, Window: day, Patience: 3 * second,
			Handshake: []Handshake{{
				Name: "url_verification", Method: "POST", Detect: []string{"json:type=url_verification"},
				Verify: true, ContentType: "text/plain", Body: "{json:challenge}",
			}},
			EventHeaders:     []string{"X-Slack-Retry-Num", "X-Slack-Retry-Reason", "X-Slack-Request-Timestamp"},
			SignatureHeaders: []string{"X-Slack-Signature", "X-Slack-Request-Timestamp"},
		},
		{
			Name: "standard_webhooks", Title: "Standard Webhooks",
			Docs: "https://www.standardwebhooks.com/",
			Modes: []Mode{
				{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}},
				{Name: "ed25519", PublicKey: &PublicKey{Scheme: standardWebhooks("Webhook", "v1a"), Algorithm: Ed25519}},
			},
			ID: []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 76 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "stripe", Title: "Stripe",
			Docs: "https://docs.stripe.com/webhooks",
			Modes: []Mode{{Name: "signature", Custom: customStripe, HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Stripe-Signature", Format: FormatKV, Key: "v1", Signed: "{timestamp}.{body}",
				Timestamp: "sig:t", Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 30 * day, Window: 30 * day, Patience: 10 * second,
			SignatureHeaders: []string{"Stripe-Signature"},
		},
		{
			Name: "svix", Title: "Svix",
			Docs:  "https://docs.svix.com/receiving/verifying-payloads/how",
			Modes: []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Svix", "v1"), Secret: SecretWhsec}}},
			ID:    []string{"header:Svix-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Svix-Id", "Svix-Timestamp"},
			SignatureHeaders: []string{"Svix-Signature", "Svix-Timestamp"},
		},
		{
			Name: "token", Title: "Any sender with a shared token",
			Modes: []Mode{{Name: "token", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}}},
			NoID:  NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Retries: unknownWindow, Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
			Options:           slices.Concat(optionsLocate, optionsToken),
		},
		{
			Name: "twilio", Title: "Twilio",
			Docs: "https://www.twilio.com/docs/usage/webhooks/webhooks-security",
			Modes: []Mode{{Name: "signature", Custom: customTwilio, HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{
				Sig: "header:X-Twilio-Signature", Encoding: Base64, Signed: "{url}{form}",
			}}}},
			Methods: []string{"POST", "GET"},
			ID: []string{"header:I-Twilio-Idempotency-Token", "form:MessageSid+form:MessageStatus",
				"form:CallSid+form:CallStatus+form:SequenceNumber"},
			Type: []string{"form:MessageStatus", "form:SmsStatus", "form:CallStatus", "form:EventType"},
			// Voice hooks called with GET have no body, which then is the same for
			// every call.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: day, Window: 30 * hour, Patience: 15 * second,
			EventHeaders:     []string{"I-Twilio-Idempotency-Token"},
			SignatureHeaders: []string{"X-Twilio-Signature"},
		},
	}
}
