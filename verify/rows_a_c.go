package verify

// rowsAToC are the rows whose names begin with a to c.
func rowsAToC() []Row {
	rows := append(rowsA(), rowsB()...)
	return append(rows, rowsC()...)
}

// headerToken is a token in a header of the operator's choice.
func headerToken(in string) Mode {
	return Mode{Name: "token", Token: &Token{In: "header:" + in}}
}

// bodyHMAC is a signature over the body and nothing else, in a header.
func bodyHMAC(header, prefix string, enc Encoding) *HMAC {
	return &HMAC{Scheme: Scheme{Sig: "header:" + header, Prefix: prefix, Encoding: enc, Signed: "{body}"}}
}

func rowsA() []Row {
	return []Row{
		{
			Name: "ably", Title: "Ably",
			Docs:  "https://ably.com/docs/platform/integrations/webhooks",
			Modes: []Mode{{Name: "signature", HMAC: bodyHMAC("X-Ably-Signature", "", Base64)}},
			// Messages within messages: newer ones join a batch that is retried.
			ID: []string{"json:id"}, Type: []string{"parent:source", "json:source"},
			NeverID: []string{"json:webhookId", "header:X-Ably-Key"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, AnyBody: true,
			Retries: 5 * minute, Window: day, Patience: 15 * second,
			Batch: &Batch{Path: "items[].data.messages", Also: []string{"items[].data.presence", "messages", "presence"}, Optional: true},
			// X-Ably-Key names the key and is none.
			EventHeaders:     []string{"X-Ably-Version", "X-Ably-Key"},
			SignatureHeaders: []string{"X-Ably-Signature"},
		},
		{
			Name: "acuity", Title: "Acuity Scheduling",
			Docs:        "https://developers.acuityscheduling.com/docs/webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how long Acuity retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Acuity-Signature", "", Base64)}},
			// The body is an action and an appointment: the same for every change of it.
			Type: []string{"form:action"}, NeverID: []string{"form:id"},
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Acuity-Signature"},
		},
		{
			Name: "adobe_io_events", Title: "Adobe I/O Events",
			Docs:        "https://developer.adobe.com/events/docs/guides/",
			Unconfirmed: []string{"how a request with several events looks"},
			// The keys sign for all of Adobe's customers: whose event it is stands in the
			// body alone. Adobe signs with two keys; the first of them is enough.
			Modes: []Mode{{Name: "signature",
				Require: []string{"json:recipient_client_id ?? json:recipientclientid ?? json:0.recipient_client_id ?? json:0.recipientclientid=$client_id"},
				PublicKey: &PublicKey{Algorithm: RSASHA256,
					Scheme: Scheme{Sig: "header:X-Adobe-Digital-Signature-1", Encoding: Base64, Signed: "{body}"},
					Keys: &KeySource{Kind: "pem", In: "header:X-Adobe-Public-Key1-Path", Base: "https://static.adobeioevents.com",
						Hosts: []string{"static.adobeioevents.com"}, Path: "/prod/keys/pub-key-*.pem"},
				}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:event_id", "json:id"}, Type: []string{"header:X-Adobe-Event-Code", "json:event.@type", "json:type"},
			NeverID: []string{"header:X-Adobe-Delivery-Id", "header:X-Adobe-Retry-Count"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			Batch: &Batch{Optional: true},
			Handshake: []Handshake{{
				// Adobe sends it before there is a key to check anything with.
				Name: "challenge", Method: "GET", Detect: []string{"query:challenge"}, Open: true, Body: "{query:challenge}",
			}},
			EventHeaders:     []string{"X-Adobe-Event-Id", "X-Adobe-Event-Code", "X-Adobe-Provider", "X-Adobe-Retry-Count"},
			SignatureHeaders: []string{"X-Adobe-Digital-Signature-1", "X-Adobe-Digital-Signature-2", "X-Adobe-Public-Key1-Path", "X-Adobe-Public-Key2-Path"},
			Options:          []string{"client_id"},
		},
		{
			Name: "adobe_sign", Title: "Adobe Acrobat Sign",
			Docs:        "https://opensource.adobe.com/acrobat-sign/acrobat_sign_events/index.html",
			Unconfirmed: []string{"how long Acrobat Sign retries"},
			// The secret is the client ID of the application, which is no secret to
			// people who work with it: use mutual TLS as well.
			Modes:   []Mode{{Name: "client_id", Token: &Token{In: "header:X-AdobeSign-ClientId"}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:webhookNotificationId"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 3 * day, Window: 8 * day, Patience: 5 * second, BodyLimit: 10 << 20,
			Handshake: []Handshake{{
				Name: "client_id", Method: "GET", Detect: []string{"header:X-AdobeSign-ClientId"}, Verify: true,
				Header: map[string]string{"X-AdobeSign-ClientId": "{header:X-AdobeSign-ClientId}"},
			}},
			// Without it in the answer a delivery has failed, 200 or not.
			EchoHeaders:       []string{"X-AdobeSign-ClientId"},
			CredentialHeaders: []string{"X-AdobeSign-ClientId"},
		},
		{
			Name: "adyen_platform", Title: "Adyen (platforms, balance, management and terminal webhooks)",
			Docs:        "https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Adyen retries", "which answers it wants"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretHex, Scheme: Scheme{
				Sig: "header:HmacSignature", Encoding: Base64, Signed: "{body}"}}}},
			ID: []string{"json:data.id+json:type+json:timestamp"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 30 * day, Window: 31 * day, Patience: 10 * second,
			EventHeaders:     []string{"Protocol"},
			SignatureHeaders: []string{"HmacSignature"},
		},
		{
			Name: "affirm", Title: "Affirm",
			Docs:        "https://docs.affirm.com/developers/docs/checking-webhook-signatures",
			Unconfirmed: []string{"where the event type is", "how long Affirm retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA512, Scheme: Scheme{
				Sig: "header:X-Affirm-Signature", Format: FormatKV, Key: "v0", Signed: "{timestamp}.{body}",
				Timestamp: "sig:t", Tolerance: defaultTolerance,
			}}}},
			Type: []string{"json:event_type", "form:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Affirm-Signature"},
		},
		{
			Name: "agora", Title: "Agora",
			Docs:        "https://docs.agora.io/en/video-calling/advanced-features/receive-notifications",
			Unconfirmed: []string{"how long Agora retries"},
			Modes: []Mode{
				{Name: "v2", HMAC: bodyHMAC("Agora-Signature-V2", "", "")},
				{Name: "v1", Explicit: true, HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:Agora-Signature", Signed: "{body}"}}},
			},
			ID: []string{"json:noticeId"}, Type: []string{"json:productId+json:eventType"},
			NeverID: []string{"json:notifyMs"},
			// A retry carries another notifyMs.
			NoID: NoIDDeliver, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 5 * minute, Window: day, Patience: 10 * second,
			SignatureHeaders: []string{"Agora-Signature-V2", "Agora-Signature"},
		},
		{
			Name: "airship", Title: "Airship",
			Docs:        "https://docs.airship.com/api/connect/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Airship retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-UA-Signature", Signed: "{timestamp}:{body}", Timestamp: "header:X-UA-Timestamp"}}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-UA-Signature", "X-UA-Timestamp"},
		},
		{
			Name: "airtable", Title: "Airtable",
			Docs:        "https://airtable.com/developers/web/api/webhooks-overview",
			Unconfirmed: []string{"how long Airtable retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretBase64, Scheme: Scheme{
				Sig: "header:X-Airtable-Content-MAC", Prefix: "hmac-sha256=", Signed: "{body}"}}}},
			// Says that something changed: what did has to be fetched.
			ID:      []string{"json:base.id+json:webhook.id+json:timestamp"},
			NeverID: []string{"json:webhook.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Airtable-Content-MAC"},
		},
		{
			Name: "airwallex", Title: "Airwallex",
			Docs:        "https://www.airwallex.com/docs/developer-tools/webhooks/webhooks-overview",
			Unconfirmed: []string{"whether times are in milliseconds (both are read)"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Signature", Signed: "{timestamp}{body}", Timestamp: "header:X-Timestamp", Unit: SecondsOrMillis}}}},
			ID: []string{"json:id"}, Type: []string{"json:name"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 3 * day, Window: 7 * day, Patience: 10 * second,
			Answer:           Answer{Status: 200}, // any other is a failure
			SignatureHeaders: []string{"X-Signature", "X-Timestamp"},
		},
		{
			Name: "alchemy", Title: "Alchemy Notify",
			Docs:        "https://www.alchemy.com/docs/reference/notify-api-quickstart",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Alchemy retries"},
			// The key looks like one of Standard Webhooks and is used as text.
			Modes: []Mode{{Name: "signature", HMAC: bodyHMAC("X-Alchemy-Signature", "", "")}},
			ID:    []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:webhookId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 26 * hour, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Alchemy-Signature"},
		},
		{
			Name: "alertmanager", Title: "Prometheus Alertmanager",
			Docs: "https://prometheus.io/docs/alerting/latest/configuration/#webhook_config",
			Modes: []Mode{
				{Name: "basic", Basic: &Basic{}},
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
			},
			// The same group comes again on purpose, after repeat_interval: nothing in it
			// names one notification.
			Type: []string{"json:status"}, NeverID: []string{"json:groupKey"},
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver,
			Retries: hour, Window: day, Patience: 10 * second, BodyLimit: 10 << 20,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "anthropic", Title: "Anthropic (managed agents)",
			Docs:        "https://platform.claude.com/docs/en/managed-agents/webhooks",
			Unconfirmed: []string{"how long Anthropic retries"},
			// Webhook-Id is signed and names the delivery; the event is named in the body.
			Modes: []Mode{{Name: "hmac", HMAC: &HMAC{Secret: SecretWhsec, Scheme: Scheme{
				Sig: "header:Webhook-Signature", Format: FormatList, Key: "v1", Encoding: Base64, Signed: "{header:Webhook-Id}.{timestamp}.{body}",
				Timestamp: "header:Webhook-Timestamp", Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:data.type"},
			NeverID: []string{"header:Webhook-Id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "asana", Title: "Asana",
			Docs:        "https://developers.asana.com/docs/webhooks-guide",
			Unconfirmed: []string{"which parts name an event for ever"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Hook-Signature", "", "")}},
			ID:          []string{"json:resource.gid+json:action+json:created_at"}, Type: []string{"json:resource.resource_type+json:action"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			Batch: &Batch{Path: "events"}, // an empty one is a heartbeat
			Handshake: []Handshake{{
				// The value is the key of all that follows: taken only while the operator
				// waits for it.
				Name: "registration", Method: "POST", Detect: []string{"header:X-Hook-Secret"}, Open: true,
				Pending: "registration_pending", Capture: "header:X-Hook-Secret",
				Header: map[string]string{"X-Hook-Secret": "{header:X-Hook-Secret}"},
			}},
			SignatureHeaders:  []string{"X-Hook-Signature"},
			CredentialHeaders: []string{"X-Hook-Secret"},
			Options:           []string{"registration_pending"},
		},
		{
			Name: "ashby", Title: "Ashby",
			Docs:        "https://developers.ashbyhq.com/docs/authenticating-webhooks",
			Unconfirmed: []string{"how long Ashby retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("Ashby-Signature", "sha256=", "")}},
			ID:          []string{"json:action+json:data.application.id+json:data.application.updatedAt"}, Type: []string{"json:action"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			Handshake:        []Handshake{{Name: "ping", Method: "POST", Detect: []string{"json:action=ping"}, Verify: true}},
			SignatureHeaders: []string{"Ashby-Signature"},
		},
		{
			Name: "assemblyai", Title: "AssemblyAI",
			Docs:        "https://www.assemblyai.com/docs/deployment/webhooks",
			Unconfirmed: []string{"how long AssemblyAI retries"},
			// Name and value of the header are given with each transcript.
			Modes: []Mode{headerToken("X-Webhook-Secret")},
			ID:    []string{"json:transcript_id+json:status"}, Type: []string{"json:status"},
			NeverID: []string{"json:transcript_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"X-Webhook-Secret"},
			Options:           []string{"token_header"},
		},
		{
			Name: "attio", Title: "Attio",
			Docs:        "https://docs.attio.com/rest-api/guides/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Attio retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Attio-Signature ?? header:X-Attio-Signature", Signed: "{body}"}}}},
			// The ID is of the request, so it stays whole. Its elements have no time: two
			// changes of one record look the same.
			ID: []string{"header:Idempotency-Key"}, Type: []string{"json:events.0.event_type"},
			NeverID: []string{"json:webhook_id"},
			NoID:    NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: day, Window: unknownWindow, Patience: 5 * second,
			EventHeaders:     []string{"Idempotency-Key"},
			SignatureHeaders: []string{"Attio-Signature", "X-Attio-Signature"},
		},
		{
			Name: "auth0_event_streams", Title: "Auth0 event streams",
			Docs: "https://auth0.com/docs/customize/events",
			Modes: []Mode{
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
				{Name: "basic", Basic: &Basic{}},
			},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodyStable: true,
			Retries: 7 * day, Window: 8 * day, Patience: 5 * second,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "auth0_log_streams", Title: "Auth0 log streams",
			Docs:        "https://auth0.com/docs/customize/log-streams/custom-log-streams",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Auth0 retries"},
			// The header is sent as the operator wrote it, whatever it says.
			Modes: []Mode{headerToken("Authorization")},
			ID:    []string{"json:log_id"}, Type: []string{"json:data.type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 7 * day, Window: 8 * day, Patience: 10 * second, BodyLimit: 10 << 20,
			Batch:             &Batch{Lines: true, Optional: true},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "authorize_net", Title: "Authorize.Net",
			Docs:        "https://developer.authorize.net/api/reference/features/webhooks.html",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Authorize.Net retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA512, Secret: SecretHex, Scheme: Scheme{
				Sig: "header:X-ANET-Signature", Prefix: "sha512=", Signed: "{body}"}}}},
			ID: []string{"json:notificationId"}, Type: []string{"json:eventType"},
			NeverID: []string{"json:webhookId", "json:payload.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 9 * day, Window: 10 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-ANET-Signature"},
		},
		{
			Name: "autotask", Title: "Datto Autotask PSA",
			Docs:        "https://www.autotask.net/help/DeveloperHelp/Content/APIs/Webhooks/WEBHOOKS.htm",
			Unconfirmed: []string{"which parts name an event for ever", "how long Autotask retries"},
			// Says sha1= and is base64.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{
				Sig: "header:X-Hook-Signature", Prefix: "sha1=", Encoding: Base64, Signed: "{body}"}}}},
			ID: []string{"json:Guid+json:SequenceNumber"}, Type: []string{"json:EntityType+json:Action"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Hook-Signature"},
		},
		{
			Name: "aws_eventbridge", Title: "Amazon EventBridge API destinations",
			Docs:        "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-api-destinations.html",
			Unconfirmed: []string{"whether the ID stays the same over retries", "which answers EventBridge retries"},
			Modes: []Mode{
				headerToken("X-Api-Key"),
				{Name: "basic", Basic: &Basic{}},
				{Name: "bearer", Explicit: true, Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
			},
			Methods: []string{"POST", "PUT", "PATCH"},
			// An input transformer may put anything in place of the event.
			ID: []string{"json:id"}, Type: []string{"json:detail-type"},
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, AnyBody: true,
			Retries: day, Window: 3 * day, Patience: 5 * second,
			CredentialHeaders: []string{"Authorization", "X-Api-Key"},
			Options:           []string{"token_header"},
		},
		{
			Name: "aws_iot", Title: "AWS IoT Core HTTP action",
			Docs:        "https://docs.aws.amazon.com/iot/latest/developerguide/https-rule-action.html",
			Unconfirmed: []string{"how requests are authenticated", "what the confirmation looks like", "how long AWS IoT retries"},
			Modes: []Mode{
				{Name: "url", Token: &Token{In: "query:token"}},
				{Name: "header", Explicit: true, Token: &Token{In: "header:X-Api-Key"}},
			},
			// Devices say the same twice and mean it.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver,
			Retries: hour, Window: unknownWindow, Patience: 3 * second,
			Handshake: []Handshake{{
				Name: "confirmation", Method: "POST", Detect: []string{"json:confirmationToken", "json:enableUrl"}, Verify: true,
				Confirm: "json:enableUrl", ConfirmHosts: []string{"iot.*.amazonaws.com", "iot.*.amazonaws.com.cn"},
			}},
			CredentialHeaders: []string{"X-Api-Key"},
			CredentialParams:  []string{"query:token"},
			Options:           []string{"token_header", "token_param"},
		},
		{
			Name: "azure_devops", Title: "Azure DevOps service hooks",
			Docs:        "https://learn.microsoft.com/azure/devops/service-hooks/services/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Azure DevOps retries"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
			ID:          []string{"json:id"}, Type: []string{"json:eventType"},
			NeverID: []string{"json:notificationId", "json:subscriptionId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: 3 * day, Patience: 10 * second, BodyLimit: 10 << 20,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "azure_eventgrid", Title: "Azure Event Grid (its own schema)",
			Docs:        "https://learn.microsoft.com/azure/event-grid/webhook-event-delivery",
			Unconfirmed: []string{"whether the validation carries the header (it does carry the URL)", "the claims of tokens from Entra ID"},
			Modes: []Mode{
				{Name: "header", Token: &Token{In: "header:X-Auth"}},
				{Name: "url", Token: &Token{In: "query:token"}},
				// A tenant's keys sign for all of its applications: the one that calls is
				// Event Grid's own.
				{Name: "entra", Explicit: true, JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"RS256"},
					Keys:   &KeySource{Kind: "jwks", URL: "https://login.microsoftonline.com/{option:tenant}/discovery/keys"},
					Claims: map[string]string{"aud": "$audience", "tid": "$tenant", "appid": "4962773b-9cdb-44cf-a8bf-237846a00ab7", "exp": "*"}, Leeway: minute}},
			},
			ID: []string{"json:id"}, Type: []string{"json:eventType"},
			NeverID: []string{"header:Aeg-Delivery-Count"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, BodyStable: true,
			Retries: day, Window: 3 * day, Patience: 30 * second, BodyLimit: 2 << 20,
			Batch: &Batch{},
			Handshake: []Handshake{{
				Name: "validation", Method: "POST", Verify: true,
				Detect: []string{"header:Aeg-Event-Type=SubscriptionValidation", "json:0.eventType=Microsoft.EventGrid.SubscriptionValidationEvent"},
				JSON:   map[string]string{"validationResponse": "{json:0.data.validationCode}"},
			}},
			EventHeaders:      []string{"Aeg-Event-Type", "Aeg-Subscription-Name", "Aeg-Delivery-Count", "Aeg-Data-Version", "Aeg-Metadata-Version"},
			CredentialHeaders: []string{"X-Auth", "Authorization"},
			CredentialParams:  []string{"query:token"},
			Options:           []string{"header", "token_param", "audience", "tenant"},
		},
	}
}

func rowsB() []Row {
	return []Row{
		{
			Name: "bamboohr", Title: "BambooHR",
			Docs:        "https://documentation.bamboohr.com/docs/webhooks",
			Unconfirmed: []string{"how long BambooHR retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-BambooHR-Signature", Signed: "{body}{timestamp}", Timestamp: "header:X-BambooHR-Timestamp"}}}},
			ID: []string{"json:id+json:action+json:timestamp"}, Type: []string{"json:action"},
			NeverID: []string{"json:id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 3 * hour, Window: day, Patience: 10 * second,
			Batch:            &Batch{Path: "employees"},
			SignatureHeaders: []string{"X-BambooHR-Signature", "X-BambooHR-Timestamp"},
		},
		{
			Name: "bandwidth", Title: "Bandwidth",
			Docs:        "https://dev.bandwidth.com/docs/messaging/webhooks/",
			Unconfirmed: []string{"which parts name an event for ever"},
			// The first request may come without credentials and is sent again with them.
			Modes: []Mode{{Name: "basic", Basic: &Basic{}}},
			ID:    []string{"json:message.id+json:type", "json:callId+json:eventType+json:eventTime"}, Type: []string{"json:type", "json:eventType"},
			// A group message has one report for each recipient, under one ID.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			Batch:             &Batch{Optional: true},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "bigcommerce", Title: "BigCommerce",
			Docs:        "https://developer.bigcommerce.com/docs/integrations/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			// The secret of the application is used as text.
			Modes: []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1")}}},
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:scope"},
			NeverID: []string{"json:hash", "json:data.id"}, // the hash is the same for two equal changes
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 49 * hour, Window: 4 * day, Patience: 10 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "bitbucket", Title: "Bitbucket Cloud",
			Docs:        "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Bitbucket retries"},
			// The header is GitHub's older one, its digest is not.
			Modes: []Mode{{Name: "signature", HMAC: bodyHMAC("X-Hub-Signature", "sha256=", "")}},
			ID:    []string{"header:X-Request-UUID"}, Type: []string{"header:X-Event-Key"},
			NeverID: []string{"header:X-Hook-UUID", "header:X-Attempt-Number"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: hour, Window: unknownWindow, Patience: 10 * second, BodyLimit: 10 << 20,
			EventHeaders:     []string{"X-Event-Key", "X-Request-UUID", "X-Hook-UUID", "X-Attempt-Number"},
			SignatureHeaders: []string{"X-Hub-Signature"},
		},
		{
			Name: "bitbucket_dc", Title: "Bitbucket Data Center",
			Docs:        "https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Bitbucket retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Hub-Signature", "sha256=", "")}},
			ID:          []string{"header:X-Request-Id"}, Type: []string{"header:X-Event-Key"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: hour, Window: unknownWindow, Patience: 10 * second, BodyLimit: 10 << 20,
			Handshake: []Handshake{{
				// The Test button signs nothing, whether or not there is a secret.
				Name: "test", Method: "POST", Detect: []string{"header:X-Event-Key=diagnostics:ping", "json:test=true"}, Open: true,
			}},
			EventHeaders:     []string{"X-Event-Key", "X-Request-Id"},
			SignatureHeaders: []string{"X-Hub-Signature"},
		},
		{
			Name: "bolt", Title: "Bolt",
			Docs:        "https://help.bolt.com/developers/guides/webhooks/",
			Unconfirmed: []string{"where the event type is", "how long Bolt retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Bolt-Hmac-Sha256", "", Base64)}},
			Type:        []string{"json:type"},
			NoID:        NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Bolt-Hmac-Sha256"},
		},
		{
			Name: "box", Title: "Box",
			Docs: "https://developer.box.com/guides/webhooks/v2/signatures-v2/",
			// Box signs what it sends with some characters escaped, in deliveries that
			// come without those escapes.
			Modes: []Mode{{Name: "signature", Require: []string{"header:BOX-SIGNATURE-VERSION=1", "header:BOX-SIGNATURE-ALGORITHM=HmacSHA256"},
				HMAC: &HMAC{Scheme: Scheme{
					Sig: "header:BOX-SIGNATURE-PRIMARY", SigSecret: "primary", Encoding: Base64,
					More:   []Place{{In: "header:BOX-SIGNATURE-SECONDARY", Secret: "secondary"}},
					Signed: "{body}{timestamp}", Or: []string{"{body_ascii}{timestamp}"},
					Timestamp: "header:BOX-DELIVERY-TIMESTAMP", Unit: RFC3339, Tolerance: 10 * minute,
				}}}},
			ID: []string{"json:id"}, Type: []string{"json:trigger"},
			NeverID: []string{"header:BOX-DELIVERY-ID", "json:webhook.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 2 * hour, Window: day, Patience: 30 * second,
			EventHeaders:     []string{"Box-Delivery-Id", "Box-Delivery-Timestamp"},
			SignatureHeaders: []string{"Box-Signature-Primary", "Box-Signature-Secondary", "Box-Signature-Version", "Box-Signature-Algorithm", "Box-Delivery-Timestamp"},
		},
		{
			Name: "braze", Title: "Braze Currents",
			Docs:        "https://www.braze.com/docs/user_guide/data/distribution/braze_currents/",
			Unconfirmed: []string{"how requests are authenticated", "where events, IDs and types are", "how long Braze retries"},
			Modes:       []Mode{{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}}},
			ID:          []string{"json:id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: unknownWindow, Patience: 10 * second, BodyLimit: 10 << 20,
			Batch:             &Batch{Path: "events", Optional: true},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "brevo", Title: "Brevo",
			Docs:        "https://developers.brevo.com/docs/how-to-use-webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how a request with several events looks"},
			Modes: []Mode{
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
				{Name: "basic", Basic: &Basic{}},
				{Name: "header", Explicit: true, Token: &Token{In: "header:X-Webhook-Token"}},
			},
			ID: []string{"json:message-id+json:event+json:ts_event"}, Type: []string{"json:event"},
			NeverID: []string{"json:id"}, // the webhook's
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 12 * hour, Window: 2 * day, Patience: 10 * second,
			Batch:             &Batch{Optional: true},
			CredentialHeaders: []string{"Authorization", "X-Webhook-Token"},
			Options:           []string{"token_header"},
		},
		{
			Name: "brex", Title: "Brex",
			Docs:        "https://developer.brex.com/docs/webhooks",
			Unconfirmed: []string{"under which prefix the headers come", "whether the ID stays the same over retries", "where the event type is"},
			Modes: []Mode{
				{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}},
				{Name: "svix", HMAC: &HMAC{Scheme: standardWebhooks("Svix", "v1"), Secret: SecretWhsec}, ID: []string{"header:Svix-Id"}},
			},
			ID: []string{"header:Webhook-Id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp", "Svix-Id", "Svix-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp", "Svix-Signature", "Svix-Timestamp"},
		},
		{
			Name: "buildkite", Title: "Buildkite",
			Docs:        "https://buildkite.com/docs/apis/webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how long Buildkite retries"},
			Modes: []Mode{
				{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
					Sig: "header:X-Buildkite-Signature", Format: FormatKV, Key: "signature", Signed: "{timestamp}.{body}",
					Timestamp: "sig:timestamp", Tolerance: defaultTolerance,
				}}},
				{Name: "token", Token: &Token{In: "header:X-Buildkite-Token"}},
			},
			Type: []string{"header:X-Buildkite-Event"}, NeverID: []string{"json:build.id", "json:job.id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			EventHeaders:      []string{"X-Buildkite-Event", "X-Buildkite-Request"},
			SignatureHeaders:  []string{"X-Buildkite-Signature"},
			CredentialHeaders: []string{"X-Buildkite-Token"},
		},
	}
}

func rowsC() []Row {
	return []Row{
		{
			Name: "cal_com", Title: "Cal.com",
			Docs:        "https://cal.com/docs/developing/guides/automation/webhooks",
			Unconfirmed: []string{"how long Cal.com retries"},
			// Without a secret the header says no-secret-provided, which is no signature.
			Modes: []Mode{{Name: "signature", HMAC: bodyHMAC("X-Cal-Signature-256", "", "")}},
			Type:  []string{"json:triggerEvent"},
			NoID:  NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Cal-Webhook-Version"},
			SignatureHeaders: []string{"X-Cal-Signature-256"},
		},
		{
			Name: "calendly", Title: "Calendly",
			Docs:        "https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures",
			Unconfirmed: []string{"how long Calendly retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Calendly-Webhook-Signature", Format: FormatKV, Key: "v1", Signed: "{timestamp}.{body}",
				Timestamp: "sig:t", Tolerance: 3 * minute,
			}}}},
			ID: []string{"json:payload.uri+json:event+json:created_at"}, Type: []string{"json:event"},
			NeverID: []string{"json:payload.uri"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 15 * second,
			SignatureHeaders: []string{"Calendly-Webhook-Signature"},
		},
		{
			Name: "chargebee", Title: "Chargebee",
			Docs:  "https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings",
			Modes: []Mode{{Name: "basic", Basic: &Basic{}}},
			ID:    []string{"json:id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodyStable: true,
			Retries: 4 * day, Window: 7 * day, Patience: 20 * second,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "chargify", Title: "Maxio Advanced Billing (Chargify)",
			Docs:        "https://docs.maxio.com/hc/en-us/articles/24266146127885-Webhooks",
			Unconfirmed: []string{"the names of the headers", "how long Maxio retries"},
			// The MD5 header beside it is not looked at.
			Modes: []Mode{{Name: "signature", HMAC: bodyHMAC("X-Chargify-Webhook-Signature-Hmac-Sha-256", "", "")}},
			ID:    []string{"header:X-Chargify-Webhook-Id"}, Type: []string{"form:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 3 * day, Window: 7 * day, Patience: 15 * second,
			Answer:           Answer{Status: 200},
			EventHeaders:     []string{"X-Chargify-Webhook-Id"},
			SignatureHeaders: []string{"X-Chargify-Webhook-Signature-Hmac-Sha-256"},
		},
		{
			Name: "chatwoot", Title: "Chatwoot",
			Docs:        "https://www.chatwoot.com/hc/user-guide/articles/1677693021-how-to-use-webhooks",
			Unconfirmed: []string{"where the time stands", "which parts name an event for ever", "how long Chatwoot retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Chatwoot-Signature", Prefix: "sha256=", Signed: "{timestamp}.{body}", Timestamp: "header:X-Chatwoot-Timestamp"}}}},
			ID: []string{"json:id+json:event"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 5 * second,
			EventHeaders:     []string{"X-Chatwoot-Delivery"},
			SignatureHeaders: []string{"X-Chatwoot-Signature", "X-Chatwoot-Timestamp"},
		},
		{
			Name: "checkout_com", Title: "Checkout.com",
			Docs:        "https://www.checkout.com/docs/developer-resources/webhooks/manage-webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Checkout.com retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("Cko-Signature", "", "")}},
			ID:          []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.id", "json:data.action_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 7 * day, Patience: 10 * second,
			SignatureHeaders:  []string{"Cko-Signature"},
			CredentialHeaders: []string{"Authorization"}, // a second key, if the operator chose one
		},
		{
			Name: "checkr", Title: "Checkr",
			Docs:        "https://docs.checkr.com/#section/Webhooks",
			Unconfirmed: []string{"how long Checkr retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Checkr-Signature", "", "")}},
			ID:          []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.object.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 25 * hour, Window: 3 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-Checkr-Signature"},
		},
		{
			Name: "circleci", Title: "CircleCI",
			Docs:        "https://circleci.com/docs/guides/integration/outbound-webhooks/",
			Unconfirmed: []string{"how long CircleCI retries"},
			// The list holds versions of the scheme, not keys: only the known one counts.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Circleci-Signature", Format: FormatKV, Key: "v1", Signed: "{body}"}}}},
			ID: []string{"json:id"}, Type: []string{"header:Circleci-Event-Type"},
			NeverID: []string{"json:webhook.id", "json:workflow.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true, AnyBody: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			EventHeaders:     []string{"Circleci-Event-Type"},
			SignatureHeaders: []string{"Circleci-Signature"},
		},
		{
			Name: "clerk", Title: "Clerk",
			Docs:  "https://clerk.com/docs/webhooks/overview",
			Modes: []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Svix", "v1"), Secret: SecretWhsec}}},
			ID:    []string{"header:Svix-Id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Svix-Id", "Svix-Timestamp"},
			SignatureHeaders: []string{"Svix-Signature", "Svix-Timestamp"},
		},
		{
			Name: "clickup", Title: "ClickUp",
			Docs:        "https://developer.clickup.com/docs/webhooksignature",
			Unconfirmed: []string{"how long ClickUp retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Signature", "", "")}},
			ID:          []string{"json:webhook_id+json:history_items.0.id"}, Type: []string{"json:event"},
			NeverID: []string{"json:task_id", "json:webhook_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 7 * second,
			SignatureHeaders: []string{"X-Signature"},
		},
		{
			Name: "close", Title: "Close",
			Docs:        "https://developer.close.com/resources/webhook-subscriptions/",
			Unconfirmed: []string{"how long Close retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretHex, Scheme: Scheme{
				Sig: "header:Close-Sig-Hash", Signed: "{timestamp}{body}", Timestamp: "header:Close-Sig-Timestamp"}}}},
			ID: []string{"json:event.id"}, Type: []string{"json:event.object_type+json:event.action"},
			NeverID: []string{"json:subscription_id", "json:event.object_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 5 * day, Patience: 10 * second,
			SignatureHeaders: []string{"Close-Sig-Hash", "Close-Sig-Timestamp"},
		},
		{
			Name: "cloudevents", Title: "CloudEvents over HTTP",
			Docs:    "https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md",
			Modes:   []Mode{{Name: "bearer", Token: &Token{In: "header:Authorization ?? query:access_token", Prefix: "Bearer "}}},
			Methods: []string{"POST", "OPTIONS"},
			// An ID is unique for its source only.
			ID: []string{"header:Ce-Source+header:Ce-Id", "json:source+json:id"}, Type: []string{"header:Ce-Type", "json:type"},
			NeverID: []string{"header:Ce-Id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: unknownWindow, Window: unknownWindow, Patience: 10 * second,
			Batch: &Batch{When: []string{"header:Content-Type=application/cloudevents-batch+json"}},
			Handshake: []Handshake{{
				// Consents to be called; what comes then still needs the token.
				Name: "origin", Method: "OPTIONS", Detect: []string{"header:WebHook-Request-Origin"}, Open: true,
				Header: map[string]string{"WebHook-Allowed-Origin": "{header:WebHook-Request-Origin}", "WebHook-Allowed-Rate": "*", "Allow": "POST"},
			}},
			EventHeaders:      []string{"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type", "Ce-Subject", "Ce-Time", "Ce-Dataschema"},
			CredentialHeaders: []string{"Authorization"},
			CredentialParams:  []string{"query:access_token"},
		},
		{
			Name: "cloudflare_notifications", Title: "Cloudflare Notifications",
			Docs:        "https://developers.cloudflare.com/notifications/get-started/configure-webhooks/",
			Unconfirmed: []string{"where the event type is", "how long Cloudflare retries"},
			Modes:       []Mode{headerToken("Cf-Webhook-Auth")},
			Type:        []string{"json:alert_type"},
			NoID:        NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Cf-Webhook-Auth"},
		},
		{
			Name: "cloudflare_stream", Title: "Cloudflare Stream",
			Docs:        "https://developers.cloudflare.com/stream/manage-video-library/using-webhooks/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Cloudflare retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Webhook-Signature", Format: FormatKV, Key: "sig1", Signed: "{timestamp}.{body}", Timestamp: "sig:time"}}}},
			ID: []string{"json:uid+json:status.state"}, Type: []string{"json:status.state"},
			NeverID: []string{"json:uid"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"Webhook-Signature"},
		},
		{
			Name: "cloudinary", Title: "Cloudinary",
			Docs:        "https://cloudinary.com/documentation/notification_signatures",
			Unconfirmed: []string{"which parts name an event for ever", "how long Cloudinary retries"},
			// Which digest it is, the account says: never the length of what came.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Plain: true, Digest: SHA1, Scheme: Scheme{
				Sig: "header:X-Cld-Signature", Signed: "{body}{timestamp}{secret}", Timestamp: "header:X-Cld-Timestamp", Tolerance: 2 * hour}}}},
			ID:   []string{"json:request_id+json:notification_type+json:asset_id", "json:asset_id+json:version+json:notification_type"},
			Type: []string{"json:notification_type"}, NeverID: []string{"json:asset_id", "json:public_id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 20 * minute, Window: day, Patience: 10 * second,
			SignatureHeaders: []string{"X-Cld-Signature", "X-Cld-Timestamp"},
			Options:          []string{"algorithm"},
		},
		{
			Name: "coinbase_commerce", Title: "Coinbase Commerce",
			Docs:  "https://docs.cdp.coinbase.com/commerce/api-architecture/webhooks-overview",
			Modes: []Mode{{Name: "signature", HMAC: bodyHMAC("X-CC-Webhook-Signature", "", "")}},
			// What stands outside the event is about the attempt.
			ID: []string{"json:event.id"}, Type: []string{"json:event.type"},
			NeverID: []string{"json:id", "json:attempt_number", "json:event.data.id"},
			NoID:    NoIDDeliver, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 5 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-CC-Webhook-Signature"},
		},
		{
			Name: "commercelayer", Title: "Commerce Layer",
			Docs:        "https://docs.commercelayer.io/core/callbacks-security",
			Unconfirmed: []string{"where the event type is", "how long Commerce Layer retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-CommerceLayer-Signature", "", Base64)}},
			Type:        []string{"header:X-CommerceLayer-Topic"}, NeverID: []string{"json:data.id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 5 * second,
			EventHeaders:     []string{"X-CommerceLayer-Topic"},
			SignatureHeaders: []string{"X-CommerceLayer-Signature"},
		},
		{
			Name: "constant_contact", Title: "Constant Contact",
			Docs:        "https://developer.constantcontact.com/api_guide/webhook_authenticity.html",
			Unconfirmed: []string{"where IDs and types are", "how long Constant Contact retries"},
			Modes: []Mode{{Name: "jws", JWT: &JWT{In: "header:X-Ctct-Signature", Algorithms: []string{"RS256"}, Detached: true,
				Keys: &KeySource{Kind: "jwks", URL: "https://developer.constantcontact.com/.well-known/jwks.json"}}}},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Ctct-Signature"},
		},
		{
			Name: "crisp", Title: "Crisp",
			Docs:        "https://docs.crisp.chat/guides/web-hooks/",
			Unconfirmed: []string{"whether times are in milliseconds (both are read)", "which parts name an event for ever", "how long Crisp retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Crisp-Signature", Signed: "[{timestamp};{body}]",
				Timestamp: "header:X-Crisp-Request-Timestamp", Unit: SecondsOrMillis}}}},
			// Only messages have a fingerprint, and an edited one keeps it.
			ID: []string{"json:data.fingerprint+json:event"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Crisp-Delivery-Id"},
			SignatureHeaders: []string{"X-Crisp-Signature", "X-Crisp-Request-Timestamp"},
		},
		{
			Name: "cursor", Title: "Cursor cloud agents",
			Docs:        "https://cursor.com/docs/cloud-agent/api/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Cursor retries"},
			Modes:       []Mode{{Name: "signature", HMAC: bodyHMAC("X-Webhook-Signature", "sha256=", "")}},
			ID:          []string{"header:X-Webhook-ID"}, Type: []string{"header:X-Webhook-Event"},
			NeverID: []string{"json:id"}, // the agent's
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Webhook-ID", "X-Webhook-Event"},
			SignatureHeaders: []string{"X-Webhook-Signature"},
		},
		{
			Name: "customerio", Title: "Customer.io",
			Docs:        "https://docs.customer.io/api/webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-CIO-Signature", Signed: "v0:{timestamp}:{body}", Timestamp: "header:X-CIO-Timestamp"}}}},
			// Events wait in line: one that is never accepted holds up all others.
			ID: []string{"json:event_id"}, Type: []string{"json:metric"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 7 * day, Window: 9 * day, Patience: 4 * second,
			SignatureHeaders: []string{"X-CIO-Signature", "X-CIO-Timestamp"},
		},
	}
}
