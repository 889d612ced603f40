package verify

// rowsQToZ are the rows whose names begin with q to z.
func rowsQToZ() []Row {
	rows := append(rowsQToR(), rowsS()...)
	rows = append(rows, rowsTToV()...)
	return append(rows, rowsWToZ()...)
}

// svixRow completes the row of a sender that follows Standard Webhooks under the
// given prefix of its headers and, unless the row says otherwise, Svix's schedule.
// With a second prefix, headers under that one are taken as well.
func svixRow(r Row, prefixes ...string) Row {
	s := standardWebhooks(prefixes[0], "v1")
	r.EventHeaders = append(r.EventHeaders, prefixes[0]+"-Id", prefixes[0]+"-Timestamp")
	r.SignatureHeaders = append(r.SignatureHeaders, prefixes[0]+"-Signature", prefixes[0]+"-Timestamp")
	ids, id := []string{"header:" + prefixes[0] + "-Id"}, "header:"+prefixes[0]+"-Id"
	for _, p := range prefixes[1:] {
		s.More = append(s.More, Place{In: "header:" + p + "-Signature"})
		s.Timestamp += " ?? header:" + p + "-Timestamp"
		ids, id = append(ids, "header:"+p+"-Id"), id+" ?? header:"+p+"-Id"
		r.EventHeaders = append(r.EventHeaders, p+"-Id", p+"-Timestamp")
		r.SignatureHeaders = append(r.SignatureHeaders, p+"-Signature", p+"-Timestamp")
	}
	s.Signed = "{" + id + "}.{timestamp}.{body}"
	r.Modes = []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: s, Secret: SecretWhsec}}}
	if r.ID == nil {
		r.ID = ids
	}
	r.NoID, r.IDSigned, r.BodySigned, r.BodyStable = NoIDBodyHash, true, true, true
	if r.OnConflict == "" {
		r.OnConflict = OnConflictAck
	}
	if r.Window == 0 {
		r.Retries, r.Window = 28*hour, 7*day
	}
	if r.Patience == 0 {
		r.Patience = 15 * second
	}
	return r
}

// placedToken completes the row of a sender that signs nothing and lets people
// choose the URL or a header: the secret is there, and options say where.
func placedToken(r Row, in string) Row {
	r.Modes = append([]Mode{{Name: "token", Token: &Token{In: in}}}, r.Modes...)
	r.NoID, r.OnConflict = NoIDBodyHash, OnConflictDeliver
	if r.Window == 0 {
		r.Window = unknownWindow
	}
	if r.Patience == 0 {
		r.Patience = 10 * second
	}
	r.Options = append(r.Options, "token_header", "token_param", "id", "type")
	return r
}

func rowsQToR() []Row {
	return []Row{
		{
			Name: "quicknode", Title: "Quicknode Streams and Webhooks",
			Docs:        "https://www.quicknode.com/guides/quicknode-products/streams/validating-incoming-streams-webhook-messages",
			Unconfirmed: []string{"where the event type is", "how long Quicknode retries"},
			// Compressed bodies are signed as they were before: leave compression off.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Qn-Signature", Prefix: "sha256=", PrefixOptional: true,
				Signed: "{header:X-Qn-Nonce}{timestamp}{body}", Timestamp: "header:X-Qn-Timestamp",
			}}}},
			Type:    []string{"json:metadata.dataset"},
			NeverID: []string{"header:X-Qn-Nonce"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Qn-Timestamp"},
			SignatureHeaders: []string{"X-Qn-Signature", "X-Qn-Nonce", "X-Qn-Timestamp"},
		},
		{
			Name: "ramp", Title: "Ramp",
			Docs: "https://docs.ramp.com/developer-api/v1/webhooks",
			// A new subscription first sends a challenge, which has to be given to Ramp's
			// API and not to this request: it goes to the target like an event.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Ramp-Webhook-Signature", Signed: "{body}"}}}},
			ID:    []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:object.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-Ramp-Webhook-Signature"},
		},
		{
			Name: "razorpay", Title: "Razorpay",
			Docs: "https://razorpay.com/docs/webhooks/validate-test/",
			// Retries of older events are signed with the old secret: keep both for a day.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Razorpay-Signature", Signed: "{body}"}}}},
			ID:    []string{"header:X-Razorpay-Event-Id"}, Type: []string{"json:event"},
			NeverID: []string{"json:payload.payment.entity.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, Guard: GuardFlag,
			Retries: day, Window: 3 * day, Patience: 5 * second,
			EventHeaders:     []string{"X-Razorpay-Event-Id"},
			SignatureHeaders: []string{"X-Razorpay-Signature"},
		},
		// Older accounts send the headers under Svix's names.
		svixRow(Row{
			Name: "recall_ai", Title: "Recall.ai",
			Docs: "https://docs.recall.ai/docs/authenticating-requests-from-recallai",
			Type: []string{"json:event"},
		}, "Webhook", "Svix"),
		{
			Name: "recurly", Title: "Recurly",
			Docs:        "https://docs.recurly.com/recurly-subscriptions/docs/signature-verification",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			// The documentation has milliseconds; one receiver reports seconds.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Recurly-Signature", Format: FormatPositional, Signed: "{timestamp}.{body}",
				Timestamp: "sig:0", Unit: SecondsOrMillis, Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:object_type+json:event_type"},
			NeverID: []string{"json:uuid"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 6 * hour, Window: 2 * day, Patience: 10 * second,
			SignatureHeaders: []string{"Recurly-Signature"},
		},
		svixRow(Row{
			Name: "render", Title: "Render", Docs: "https://render.com/docs/webhooks",
			Unconfirmed: []string{"how long Render retries"},
			Type:        []string{"json:type"},
		}, "Webhook"),
		// Start, output, logs and completed of one prediction have IDs of their own.
		svixRow(Row{
			Name: "replicate", Title: "Replicate", Docs: "https://replicate.com/docs/topics/webhooks/verify-webhook",
			Unconfirmed: []string{"how long Replicate retries"},
			Type:        []string{"json:status"}, NeverID: []string{"json:id"},
			Retries: hour, Window: unknownWindow,
		}, "Webhook"),
		svixRow(Row{
			Name: "resend", Title: "Resend", Docs: "https://resend.com/docs/webhooks/verify-webhooks-requests",
			Type: []string{"json:type"},
		}, "Svix", "Webhook"),
		{
			Name: "revenuecat", Title: "RevenueCat",
			Docs:        "https://www.revenuecat.com/docs/integrations/webhooks",
			Unconfirmed: []string{"how the signature of mode hmac is written and what it covers"},
			Modes: []Mode{
				{Name: "hmac", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-RevenueCat-Webhook-Signature", Format: FormatKV, Key: "v1",
					Signed: "{timestamp}.{body}", Timestamp: "sig:t", Tolerance: defaultTolerance}}},
				// The secret is the whole value, with Bearer if one was typed.
				{Name: "token", Token: &Token{In: "header:Authorization"}},
			},
			ID: []string{"json:event.id"}, Type: []string{"json:event.type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 3 * hour, Window: 2 * day, Patience: 60 * second,
			Answer:            Answer{Status: 200},
			SignatureHeaders:  []string{"X-RevenueCat-Webhook-Signature"},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "ringcentral", Title: "RingCentral",
			Docs:        "https://developers.ringcentral.com/guide/notifications/webhooks/creating-webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long RingCentral retries"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "header:Verification-Token ?? header:Validation-Token"}}},
			ID:          []string{"json:uuid"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 3 * second,
			Handshake: []Handshake{{
				// Events of older subscriptions carry their token in this header, and have
				// a UUID.
				Name: "validation", Method: "POST", Detect: []string{"header:Validation-Token", "!json:uuid"},
				Open: true, Header: map[string]string{"Validation-Token": "{header:Validation-Token}"},
			}},
			CredentialHeaders: []string{"Verification-Token", "Validation-Token"},
		},
	}
}

// shipstationMode is ShipStation's signature under the keys of a region.
func shipstationMode(name, host string) Mode {
	return Mode{Name: name, Explicit: name != "signature", PublicKey: &PublicKey{Algorithm: RSASHA256,
		Scheme: Scheme{Sig: "header:X-Shipengine-Rsa-Sha256-Signature", Encoding: Base64, Signed: "{timestamp}.{body}",
			Timestamp: "header:X-Shipengine-Timestamp", Unit: RFC3339, Tolerance: defaultTolerance},
		Keys: &KeySource{Kind: "jwks", URL: "https://" + host + "/jwks", KeyID: "header:X-Shipengine-Rsa-Sha256-Key-Id"},
	}}
}

func rowsS() []Row {
	return []Row{
		placedToken(Row{
			Name: "sage", Title: "Sage", Docs: "https://developer.sage.com/",
			Unconfirmed: []string{"how Sage authenticates: its products have nothing in common", "where the event ID is", "how long Sage retries"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
		}, "header:X-Webhook-Token ?? query:token"),
		{
			Name: "salesforce_outbound", Title: "Salesforce outbound messages",
			Docs:        "https://developer.salesforce.com/docs/atlas.en-us.api.meta/api/sforce_api_om_outboundmessaging.htm",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Salesforce retries"},
			// Salesforce proves itself with a client certificate alone; behind this
			// listener a secret in the URL and the organisation's ID take its place.
			Modes: []Mode{{Name: "token", Token: &Token{In: "query:token"},
				Require: []string{"xml:Body/notifications/OrganizationId=$organization_id?"}}},
			ID: []string{"xml:Id"}, NeverID: []string{"xml:sObject/Id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			// A notification by itself would lack the declarations of its namespaces.
			Batch: &Batch{Path: "xml:Body/notifications/Notification", Optional: true, Whole: true},
			Answer: Answer{Status: 200, ContentType: "text/xml", Body: Text(`<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>` +
				`<notificationsResponse xmlns="http://soap.sforce.com/2005/09/outbound"><Ack>true</Ack></notificationsResponse></soapenv:Body></soapenv:Envelope>`)},
			CredentialParams: []string{"query:token"},
			Options:          []string{"organization_id", "token_param"},
		},
		{
			Name: "samsara", Title: "Samsara",
			Docs:        "https://developers.samsara.com/docs/webhooks",
			Unconfirmed: []string{"where the event ID is", "how long Samsara retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretBase64, Scheme: Scheme{
				Sig: "header:X-Samsara-Signature", Prefix: "v1=", Signed: "v1:{timestamp}:{body}", Timestamp: "header:X-Samsara-Timestamp",
			}}}},
			ID: []string{"json:eventId"}, Type: []string{"json:eventType"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Samsara-Event-Type"},
			SignatureHeaders: []string{"X-Samsara-Signature", "X-Samsara-Timestamp"},
		},
		{
			Name: "sanity", Title: "Sanity",
			Docs:        "https://www.sanity.io/docs/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "where the event type is"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Sanity-Webhook-Signature", Format: FormatKV, Key: "v1", Sep: ", ", Encoding: Base64URL,
				Signed: "{timestamp}.{body}", Timestamp: "sig:t", Unit: Milliseconds,
			}}}},
			ID: []string{"header:Idempotency-Key"}, Type: []string{"header:Sanity-Operation"},
			NeverID: []string{"json:_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: hour, Window: 2 * day, Patience: 10 * second,
			EventHeaders:     []string{"Idempotency-Key", "Sanity-Operation", "Sanity-Dataset", "Sanity-Document-Id", "Sanity-Project-Id", "Sanity-Transaction-Id", "Sanity-Transaction-Time", "Sanity-Webhook-Id"},
			SignatureHeaders: []string{"Sanity-Webhook-Signature"},
		},
		{
			Name: "segment", Title: "Segment webhooks destination",
			Docs:        "https://segment.com/docs/connections/destinations/catalog/actions-webhook/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Segment retries"},
			// With batching on, Segment signs the first event alone. Such a request is
			// refused, because nothing vouches for the others: leave batching off.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:X-Signature", Signed: "{body}"}}}},
			ID:    []string{"json:messageId"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Signature"},
		},
		{
			Name: "sellsy", Title: "Sellsy",
			Docs:        "https://api.sellsy.com/doc/v2/",
			Unconfirmed: []string{"how long Sellsy retries"},
			// A plain digest of secret and body can be lengthened by who knows one: weak.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Plain: true, Digest: SHA1, Scheme: Scheme{Sig: "header:X-Webhook-Signature", Signed: "{secret}{body}"}}}},
			Type:  []string{"json:relatedtype+json:event"},
			NoID:  NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Webhook-Signature"},
		},
		{
			Name: "sentry", Title: "Sentry",
			Docs:        "https://docs.sentry.io/organization/integrations/integration-platform/webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:Sentry-Hook-Signature", Signed: "{body}"}}}},
			ID:          []string{"header:Request-ID"}, Type: []string{"header:Sentry-Hook-Resource"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Window: unknownWindow, Patience: second,
			EventHeaders:     []string{"Request-ID", "Sentry-Hook-Resource", "Sentry-Hook-Timestamp"},
			SignatureHeaders: []string{"Sentry-Hook-Signature"},
		},
		{
			Name: "shippo", Title: "Shippo",
			Docs:        "https://docs.goshippo.com/tracking/webhook-security",
			Unconfirmed: []string{"which parts name an event for ever", "how long Shippo retries"},
			Modes: []Mode{
				// Shippo signs on request only; others put a token into the URL.
				{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:Shippo-Auth-Signature", Format: FormatKV, Key: "v1",
					Signed: "{timestamp}.{body}", Timestamp: "sig:t"}}},
				{Name: "token", Token: &Token{In: "query:token"}},
			},
			ID:   []string{"json:data.tracking_number+json:data.tracking_status.object_id+json:event"},
			Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"Shippo-Auth-Signature"},
			Options:          []string{"token_param"},
		},
		{
			Name: "shipstation", Title: "ShipStation and ShipEngine V2",
			Docs:        "https://docs.shipstation.com/webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how long ShipStation retries"},
			Modes: []Mode{
				shipstationMode("signature", "api.shipengine.com"),
				shipstationMode("eu", "api.eu.shipengine.com"),
			},
			ID: []string{"json:resource_url+json:resource_type"}, Type: []string{"json:resource_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Shipengine-Rsa-Sha256-Signature", "X-Shipengine-Rsa-Sha256-Key-Id", "X-Shipengine-Timestamp"},
		},
		{
			Name: "signnow", Title: "SignNow",
			Docs:        "https://docs.signnow.com/",
			Unconfirmed: []string{"how the signature is written", "which parts name an event for ever", "how long SignNow retries"},
			Modes: []Mode{
				{Name: "base64", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-SignNow-Signature", Encoding: Base64, Signed: "{body}"}}},
				{Name: "hex", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-SignNow-Signature", Signed: "{body}"}}},
			},
			ID: []string{"json:meta.timestamp+json:meta.event+json:content.document_id"}, Type: []string{"json:meta.event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-SignNow-Signature"},
		},
		{
			Name: "sinch", Title: "Sinch Conversation and SMS",
			Docs:        "https://developers.sinch.com/docs/conversation/callbacks/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Sinch retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Sinch-Webhook-Signature", Encoding: Base64,
				Signed:    "{body}.{header:X-Sinch-Webhook-Signature-Nonce}.{timestamp}",
				Timestamp: "header:X-Sinch-Webhook-Signature-Timestamp",
			}}}},
			ID:      []string{"json:message.id", "json:message_delivery_report.message_id+json:message_delivery_report.status"},
			Type:    []string{"key:*_notification,*_report,message,event,unsupported_callback"},
			NeverID: []string{"header:X-Sinch-Webhook-Signature-Nonce", "json:message_delivery_report.message_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Sinch-Webhook-Signature", "X-Sinch-Webhook-Signature-Algorithm", "X-Sinch-Webhook-Signature-Nonce", "X-Sinch-Webhook-Signature-Timestamp"},
		},
		{
			Name: "sinch_numbers", Title: "Sinch Numbers",
			Docs:        "https://developers.sinch.com/docs/numbers/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Sinch retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:X-Sinch-Signature", Signed: "{body}"}}}},
			ID:          []string{"json:eventId"}, Type: []string{"json:eventType"},
			NeverID: []string{"json:resourceId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Sinch-Signature"},
		},
		placedToken(Row{
			Name: "snowplow", Title: "Snowplow", Docs: "https://docs.snowplow.io/docs/sources/webhooks/",
			Unconfirmed: []string{"how Snowplow authenticates: it is known as a collector, not as a sender", "where the event ID is", "how long Snowplow retries"},
		}, "query:token"),
		{
			Name: "snyk", Title: "Snyk",
			Docs:        "https://docs.snyk.io/snyk-api/how-to-use-snyk-webhooks-apis/validation-and-versioning-of-payloads",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Snyk retries"},
			// The header is named like GitHub's old one and holds SHA-256.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Hub-Signature", Prefix: "sha256=", Signed: "{body}"}}}},
			ID:    []string{"header:X-Snyk-Transport-ID"}, Type: []string{"header:X-Snyk-Event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Snyk-Transport-ID", "X-Snyk-Event", "X-Snyk-Timestamp"},
			SignatureHeaders: []string{"X-Hub-Signature"},
		},
		{
			Name: "sonarqube", Title: "SonarQube",
			Docs:        "https://docs.sonarsource.com/sonarqube-server/latest/project-administration/webhooks/",
			Unconfirmed: []string{"how long SonarQube waits for an answer"},
			Modes: []Mode{
				{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Sonar-Webhook-HMAC-SHA256", Signed: "{body}"}}},
				// user:password of the URL.
				{Name: "basic", Basic: &Basic{}},
			},
			ID:   []string{"json:taskId"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: hour, Window: day, Patience: 10 * second,
			EventHeaders:      []string{"X-SonarQube-Project"},
			SignatureHeaders:  []string{"X-Sonar-Webhook-HMAC-SHA256"},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "sparkpost", Title: "SparkPost",
			Docs:        "https://developers.sparkpost.com/api/webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes: []Mode{
				{Name: "basic", Basic: &Basic{}},
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
				{Name: "token", Token: &Token{In: "header:X-MessageSystems-Webhook-Token"}},
			},
			ID: []string{"json:msys.*.event_id"}, Type: []string{"json:msys.*.type"},
			NeverID: []string{"header:X-MessageSystems-Batch-ID"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 8 * hour, Window: 2 * day, Patience: 10 * second,
			Batch:             &Batch{},
			Handshake:         []Handshake{{Name: "test", Method: "POST", Detect: []string{`body:=[{"msys":{}}]`}, Verify: true}},
			EventHeaders:      []string{"X-MessageSystems-Batch-ID"},
			CredentialHeaders: []string{"Authorization", "X-MessageSystems-Webhook-Token"},
		},
		{
			Name: "square", Title: "Square",
			Docs: "https://developer.squareup.com/docs/webhooks/step3validate",
			// The URL signed is the one registered at Square, byte for byte. The older
			// X-Square-Signature holds SHA-1 and is not looked at.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Square-Hmacsha256-Signature", Encoding: Base64, Signed: "{url}{body}"}}}},
			ID:    []string{"json:event_id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-Square-Hmacsha256-Signature"},
		},
		placedToken(Row{
			Name: "statuspage", Title: "Atlassian Statuspage", Docs: "https://support.atlassian.com/statuspage/docs/enable-webhook-notifications/",
			Unconfirmed: []string{"how Statuspage authenticates", "which parts name an event for ever", "how long Statuspage retries"},
			ID:          []string{"json:incident.id+json:incident.updated_at", "json:component_update.created_at+json:component_update.id"},
			Type:        []string{"key:incident,component_update"},
		}, "query:token"),
		{
			Name: "storyblok", Title: "Storyblok",
			Docs:  "https://www.storyblok.com/docs/Guides/using-storyblok-webhooks",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:Webhook-Signature", Signed: "{body}"}}}},
			Type:  []string{"json:action"}, NeverID: []string{"json:story_id"},
			// Nothing is retried, and a story that is published twice gives the same
			// body twice.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: day, Patience: 120 * second,
			Answer:           Answer{Status: 202, ContentType: "application/json", Body: Text("{}")},
			SignatureHeaders: []string{"Webhook-Signature"},
		},
		placedToken(Row{
			Name: "strava", Title: "Strava", Docs: "https://developers.strava.com/docs/webhooks/",
			Unconfirmed: []string{"the handshake", "which parts name an event for ever", "how long Strava retries"},
			ID:          []string{"json:subscription_id+json:object_type+json:object_id+json:aspect_type+json:event_time"},
			Type:        []string{"json:object_type+json:aspect_type"},
			Methods:     []string{"POST", "GET"},
			Retries:     hour, Window: day, Patience: 2 * second,
			Handshake: []Handshake{{
				Name: "subscribe", Method: "GET", Detect: []string{"query:hub.mode=subscribe"},
				Compare: []string{"query:hub.verify_token=verify_token"}, JSON: map[string]string{"hub.challenge": "{query:hub.challenge}"},
			}},
			Options: []string{"verify_token"},
		}, "query:token"),
		{
			Name: "streak", Title: "Streak",
			Docs:        "https://streak.readme.io/reference/webhooks",
			Unconfirmed: []string{"how long Streak retries"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "header:X-Streak-Webhook-Token"}}},
			NoID:        NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"X-Streak-Webhook-Token"},
		},
		svixRow(Row{
			Name: "stytch", Title: "Stytch", Docs: "https://stytch.com/docs/b2b/guides/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Type:        []string{"json:source+json:object_type+json:action"}, NeverID: []string{"json:id"},
			OnConflict: OnConflictDeliver,
		}, "Svix"),
		{
			Name: "sumsub", Title: "Sumsub",
			Docs:        "https://docs.sumsub.com/docs/webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how long Sumsub retries"},
			// The sender names the digest, so that only strong ones are in the default.
			Modes: []Mode{
				{Name: "signature", HMAC: &HMAC{DigestIn: "header:X-Payload-Digest-Alg",
					Digests: map[string]Digest{"HMAC_SHA256_HEX": SHA256, "HMAC_SHA512_HEX": SHA512},
					Scheme:  Scheme{Sig: "header:X-Payload-Digest", Signed: "{body}"}}},
				{Name: "sha1", Explicit: true, HMAC: &HMAC{Digest: SHA1, DigestIn: "header:X-Payload-Digest-Alg",
					Digests: map[string]Digest{"HMAC_SHA1_HEX": SHA1}, Scheme: Scheme{Sig: "header:X-Payload-Digest", Signed: "{body}"}}},
			},
			ID: []string{"json:correlationId+json:type"}, Type: []string{"json:type"},
			NeverID: []string{"json:applicantId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, AnyBody: true,
			Retries: day, Window: 2 * day, Patience: 5 * second,
			SignatureHeaders: []string{"X-Payload-Digest", "X-Payload-Digest-Alg"},
			Options:          []string{"algorithms"},
		},
		// Every attempt has another Webhook-Id. Hooks decide whether the user's action
		// goes on, at once and by the answer's body: only hooks that are content with
		// an empty document can be taken here.
		svixRow(Row{
			Name: "supabase_auth_hooks", Title: "Supabase Auth hooks", Docs: "https://supabase.com/docs/guides/auth/auth-hooks",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			ID:          []string{"json:metadata.uuid"}, Type: []string{"json:metadata.name"}, NeverID: []string{"header:Webhook-Id"},
			OnConflict: OnConflictDeliver,
			Retries:    minute, Window: day, Patience: 5 * second,
			Answer: Answer{Status: 200, ContentType: "application/json", Body: Text("{}")},
		}, "Webhook"),
		{
			Name: "surveymonkey", Title: "SurveyMonkey",
			Docs:        "https://api.surveymonkey.com/v3/docs#webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long SurveyMonkey retries"},
			// The secret is CLIENT_ID&CLIENT_SECRET.
			Modes:   []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:Sm-Signature", Encoding: Base64, Signed: "{body}"}}}},
			Methods: []string{"POST", "HEAD"},
			ID:      []string{"json:event_id"}, Type: []string{"json:event_type"},
			NeverID: []string{"json:object_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake:        []Handshake{{Name: "creation", Method: "HEAD", Open: true}},
			SignatureHeaders: []string{"Sm-Signature"},
		},
	}
}
func rowsTToV() []Row {
	return []Row{
		{
			Name: "tally", Title: "Tally",
			Docs:        "https://developers.tally.so/",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:Tally-Signature", Encoding: Base64, Signed: "{body}"}}}},
			ID:          []string{"json:eventId"}, Type: []string{"json:eventType"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 32 * hour, Window: 3 * day, Patience: 10 * second,
			SignatureHeaders: []string{"Tally-Signature"},
		},
		{
			Name: "telegram", Title: "Telegram bots",
			Docs:  "https://core.telegram.org/bots/api#setwebhook",
			Modes: []Mode{{Name: "token", Token: &Token{In: "header:X-Telegram-Bot-Api-Secret-Token"}}},
			// Numbers count per bot: one source takes one bot.
			ID: []string{"json:update_id"}, Type: []string{"key:!update_id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodyStable: true,
			Retries: day, Window: 3 * day, Patience: 30 * second,
			// A body would be read as a call of the bot's methods.
			Answer:            Answer{Status: 200},
			CredentialHeaders: []string{"X-Telegram-Bot-Api-Secret-Token"},
		},
		{
			Name: "telnyx", Title: "Telnyx",
			Docs: "https://developers.telnyx.com/development/api-fundamentals/webhooks/receiving-webhooks",
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: Ed25519, Scheme: Scheme{
				Sig: "header:Telnyx-Signature-Ed25519", Encoding: Base64, Signed: "{timestamp}|{body}",
				Timestamp: "header:Telnyx-Timestamp", Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:data.id"}, Type: []string{"json:data.event_type"},
			// Attempts differ in meta.attempt and meta.delivered_to.
			NeverID: []string{"json:meta.attempt", "json:data.payload.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: hour, Window: day, Patience: 2 * second,
			EventHeaders:     []string{"Telnyx-Timestamp"},
			SignatureHeaders: []string{"Telnyx-Signature-Ed25519", "Telnyx-Timestamp"},
		},
		terraformRow("terraform", "HCP Terraform and Terraform Enterprise"),
		terraformRow("terraform_cloud", "Terraform Cloud"),
		{
			Name: "tiktok", Title: "TikTok for Developers",
			Docs:        "https://developers.tiktok.com/doc/webhooks-verification",
			Unconfirmed: []string{"which parts name an event for ever", "how long TikTok retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:TikTok-Signature", Format: FormatKV, Key: "s",
				Signed: "{timestamp}.{body}", Timestamp: "sig:t"}}}},
			ID:   []string{"json:event+json:user_openid+json:create_time+json:content|json:publish_id", "json:event+json:user_openid+json:create_time"},
			Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			SignatureHeaders: []string{"TikTok-Signature"},
		},
		{
			Name: "todoist", Title: "Todoist",
			Docs:        "https://developer.todoist.com/api/v1/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Todoist retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Todoist-Hmac-SHA256", Encoding: Base64, Signed: "{body}"}}}},
			ID:          []string{"header:X-Todoist-Delivery-ID"}, Type: []string{"json:event_name"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: hour, Window: day, Patience: 10 * second,
			EventHeaders:     []string{"X-Todoist-Delivery-ID"},
			SignatureHeaders: []string{"X-Todoist-Hmac-SHA256"},
		},
		{
			Name: "travis_ci", Title: "Travis CI",
			Docs:        "https://docs.travis-ci.com/user/notifications/#verifying-webhook-requests",
			Unconfirmed: []string{"which parts name an event for ever"},
			// The key is in the API's /config. The field is decoded once, where the
			// documentation's sample does it twice.
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: RSASHA1, Scheme: Scheme{
				Sig: "header:Signature", Encoding: Base64, Signed: "{form:payload}"}}}},
			ID: []string{"form:payload|json:id+form:payload|json:state"}, Type: []string{"form:payload|json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"Travis-Repo-Slug"},
			SignatureHeaders: []string{"Signature"},
		},
		{
			Name: "trello", Title: "Trello",
			Docs:        "https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Trello retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:X-Trello-Webhook", Encoding: Base64, Signed: "{body}{url}"}}}},
			Methods:     []string{"POST", "HEAD"},
			ID:          []string{"json:action.id"}, Type: []string{"json:action.type"},
			NeverID: []string{"json:model.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: hour, Window: day, Patience: 10 * second,
			Handshake:        []Handshake{{Name: "creation", Method: "HEAD", Open: true}},
			SignatureHeaders: []string{"X-Trello-Webhook"},
		},
		placedToken(Row{
			Name: "ttn", Title: "The Things Stack", Docs: "https://www.thethingsindustries.com/docs/integrations/webhooks/",
			Unconfirmed: []string{"which parts name an event for ever"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
			// Counters begin anew with every session.
			ID:      []string{"json:end_device_ids.device_id+json:uplink_message.session_key_id+json:uplink_message.f_cnt"},
			Type:    []string{"key:uplink_*,join_*,downlink_*,location_*,service_*"},
			Retries: 2 * hour, Window: day,
			CredentialHeaders: []string{"Authorization", "X-Downlink-Apikey"},
		}, "header:X-Webhook-Token"),
		{
			Name: "twitch", Title: "Twitch EventSub",
			Docs:        "https://dev.twitch.tv/docs/eventsub/handling-webhook-events/",
			Unconfirmed: []string{"how long Twitch retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Twitch-Eventsub-Message-Signature", Prefix: "sha256=", Signed: "{id}{timestamp}{body}",
				Timestamp: "header:Twitch-Eventsub-Message-Timestamp", Unit: RFC3339, Tolerance: 10 * minute,
			}}}},
			ID: []string{"header:Twitch-Eventsub-Message-Id"}, Type: []string{"header:Twitch-Eventsub-Subscription-Type"},
			NeverID: []string{"header:Twitch-Eventsub-Message-Retry", "json:subscription.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: hour, Window: day, Patience: 5 * second,
			Handshake: []Handshake{{
				Name: "verification", Method: "POST", Detect: []string{"header:Twitch-Eventsub-Message-Type=webhook_callback_verification"},
				Verify: true, ContentType: "text/plain", Body: "{json:challenge}",
			}},
			EventHeaders: []string{"Twitch-Eventsub-Message-Id", "Twitch-Eventsub-Message-Retry", "Twitch-Eventsub-Message-Type", "Twitch-Eventsub-Message-Timestamp",
				"Twitch-Eventsub-Subscription-Type", "Twitch-Eventsub-Subscription-Version"},
			SignatureHeaders: []string{"Twitch-Eventsub-Message-Signature", "Twitch-Eventsub-Message-Timestamp"},
		},
		{
			Name: "typeform", Title: "Typeform",
			Docs:        "https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Typeform retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:Typeform-Signature", Prefix: "sha256=", Encoding: Base64, Signed: "{body}"}}}},
			ID:          []string{"json:event_id"}, Type: []string{"json:event_type"},
			// The token names the answers and stays when they are edited.
			NeverID: []string{"json:form_response.token"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 10 * hour, Window: 2 * day, Patience: 30 * second,
			SignatureHeaders: []string{"Typeform-Signature"},
		},
		{
			Name: "uber", Title: "Uber Eats and Direct",
			Docs:        "https://developer.uber.com/docs/eats/guides/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Uber retries", "which answers it wants"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Uber-Signature", Signed: "{body}"}}}},
			ID:          []string{"json:event_id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: hour, Window: day, Patience: 10 * second,
			Answer:           Answer{Status: 200},
			EventHeaders:     []string{"X-Environment"},
			SignatureHeaders: []string{"X-Uber-Signature"},
		},
		svixRow(Row{
			Name: "vanta", Title: "Vanta", Docs: "https://developer.vanta.com/docs/webhooks",
			Unconfirmed: []string{"where the event type is"},
			Type:        []string{"json:type"},
			Retries:     5 * day, Window: 7 * day,
		}, "Svix"),
		{
			Name: "vercel", Title: "Vercel",
			Docs:        "https://vercel.com/docs/webhooks/webhooks-api",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:X-Vercel-Signature", Signed: "{body}"}}}},
			ID:          []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:payload.deployment.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 30 * second,
			SignatureHeaders: []string{"X-Vercel-Signature"},
		},
		{
			Name: "veriff", Title: "Veriff",
			Docs:        "https://devdocs.veriff.com/docs/hmac-authentication-and-endpoint-security",
			Unconfirmed: []string{"which parts name an event for ever", "how long Veriff retries", "which answers it wants"},
			Modes: []Mode{{Name: "signature", Require: []string{"header:Vrf-Auth-Client ?? header:X-Auth-Client=$integration?"},
				HMAC: &HMAC{Scheme: Scheme{Sig: "header:Vrf-Hmac-Signature ?? header:X-Hmac-Signature", Signed: "{body}"}}}},
			ID:   []string{"json:verification.id+json:verification.code", "json:id+json:action+json:code", "json:id+json:action"},
			Type: []string{"json:action", "json:verification.status"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 7 * day, Window: 9 * day, Patience: 5 * second,
			EventHeaders:     []string{"Vrf-Auth-Client", "X-Auth-Client", "Vrf-Integration-Id"},
			SignatureHeaders: []string{"Vrf-Hmac-Signature", "X-Hmac-Signature"},
			Options:          []string{"integration"},
		},
		{
			Name: "viber", Title: "Viber bots",
			Docs:        "https://developers.viber.com/docs/api/rest-bot-api/#callbacks",
			Unconfirmed: []string{"which parts name an event for ever", "how long Viber retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Viber-Content-Signature", Signed: "{body}"}}}},
			// Sent, delivered and seen share a message_token, which is longer than a float.
			ID: []string{"json:message_token+json:event"}, Type: []string{"json:event"},
			NeverID: []string{"json:message_token"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake:        []Handshake{{Name: "webhook", Method: "POST", Detect: []string{"json:event=webhook"}, Verify: true}},
			SignatureHeaders: []string{"X-Viber-Content-Signature"},
		},
		{
			Name: "vonage", Title: "Vonage",
			Docs:        "https://developer.vonage.com/en/getting-started/concepts/webhooks",
			Unconfirmed: []string{"how long Vonage retries"},
			Modes: []Mode{
				{Name: "jwt", JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"HS256"},
					Claims: map[string]string{"iss": "Vonage", "api_key": "$api_key?"}, BodyHash: "payload_hash"}},
				// For products whose tokens have no hash: such a token vouches for the
				// sender and not for what is sent.
				{Name: "jwt_sender", Explicit: true, JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"HS256"},
					Claims: map[string]string{"iss": "Vonage", "api_key": "$api_key?"}, BodyHash: "payload_hash", BodyHashOptional: true}},
			},
			ID:   []string{"json:message_uuid+json:status+json:timestamp", "json:uuid+json:status+json:timestamp", "json:message_uuid+json:timestamp"},
			Type: []string{"json:status", "json:message_type", "json:channel"},
			// A retry may come with another token.
			NeverID: []string{"claim:jti"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: 2 * day, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"api_key"},
		},
	}
}

// terraformRow is the row of Terraform's notifications, which are known under two
// names.
func terraformRow(name, title string) Row {
	return Row{
		Name: name, Title: title,
		Docs:        "https://developer.hashicorp.com/terraform/cloud-docs/api-docs/notification-configurations",
		Unconfirmed: []string{"which parts name an event for ever", "the handshake", "how long Terraform retries"},
		Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA512, Scheme: Scheme{Sig: "header:X-TFE-Notification-Signature", Signed: "{body}"}}}},
		ID: []string{"json:notification_configuration_id+json:run_id+json:notifications.0.trigger+json:notifications.0.run_updated_at",
			"json:notification_configuration_id+json:details.new_assessment_result.id+json:trigger"},
		Type:    []string{"json:notifications.0.trigger", "json:trigger"},
		NeverID: []string{"json:run_id", "json:notification_configuration_id"},
		NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
		Window: unknownWindow, Patience: 10 * second,
		Handshake:        []Handshake{{Name: "verification", Method: "POST", Detect: []string{"json:notifications.0.trigger=verification"}, Verify: true}},
		SignatureHeaders: []string{"X-TFE-Notification-Signature"},
	}
}

// hubIntents are the answers to a WebSub hub that asks whether a subscription is
// meant. One that is only for some other topic gets 404, and the end of a
// subscription is confirmed only while the source says so: anyone can ask a hub
// for it.
func hubIntents() []Handshake {
	return []Handshake{
		{
			Name: "subscribe", Method: "GET", Detect: []string{"query:hub.mode=subscribe"},
			Compare: []string{"query:hub.topic=topics"}, Fail: 404, Body: "{query:hub.challenge}",
		},
		{
			Name: "unsubscribe", Method: "GET", Detect: []string{"query:hub.mode=unsubscribe"}, Pending: "unsubscribing",
			Compare: []string{"query:hub.topic=topics"}, Fail: 404, Body: "{query:hub.challenge}",
		},
		{Name: "denied", Method: "GET", Detect: []string{"query:hub.mode=denied"}, Open: true},
	}
}

func rowsWToZ() []Row {
	return []Row{
		{
			Name: "webex", Title: "Cisco Webex",
			Docs:        "https://developer.webex.com/docs/api/guides/webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how long Webex retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:X-Spark-Signature", Signed: "{body}"}}}},
			// The id at the top names the webhook.
			ID: []string{"json:data.id+json:resource+json:event"}, Type: []string{"json:resource+json:event"},
			NeverID: []string{"json:id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Spark-Signature"},
		},
		{
			Name: "webflow", Title: "Webflow",
			Docs:        "https://developers.webflow.com/data/docs/working-with-webhooks",
			Unconfirmed: []string{"the unit of the timestamp"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Webflow-Signature", Signed: "{timestamp}:{body}",
				Timestamp: "header:X-Webflow-Timestamp", Unit: Milliseconds, Tolerance: defaultTolerance}}}},
			Type: []string{"json:triggerType"}, NeverID: []string{"json:payload.id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: hour, Window: day, Patience: 30 * second,
			SignatureHeaders: []string{"X-Webflow-Signature", "X-Webflow-Timestamp"},
		},
		{
			Name: "websub", Title: "WebSub",
			Docs:        "https://www.w3.org/TR/websub/",
			Unconfirmed: []string{"how long a hub retries"},
			// The sender names the digest in the prefix: it is pinned per source.
			Modes:   []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Hub-Signature", Prefix: "{digest}=", Signed: "{body}"}}}},
			Methods: []string{"POST", "GET"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake:        hubIntents(),
			EventHeaders:     []string{"Link"},
			SignatureHeaders: []string{"X-Hub-Signature"},
			Options:          []string{"algorithm", "topics", "unsubscribing"},
		},
		{
			Name: "whatsapp", Title: "WhatsApp Business Platform",
			Docs:        "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
			Unconfirmed: []string{"how long WhatsApp retries"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Hub-Signature-256", Prefix: "sha256=", Signed: "{body}"}}}},
			Methods:     []string{"POST", "GET"},
			// Sent, delivered and read share the ID of their message. One request may
			// hold messages and statuses.
			ID: []string{"json:id+json:status", "json:id"}, Type: []string{"parent:field", "json:field"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 7 * day, Window: 9 * day, Patience: 10 * second,
			Batch: &Batch{Path: "entry[].changes[].value.messages", Also: []string{"entry[].changes[].value.statuses"}},
			Handshake: []Handshake{{
				Name: "subscribe", Method: "GET", Detect: []string{"query:hub.mode=subscribe"},
				Compare: []string{"query:hub.verify_token=verify_token"}, Fail: 403, Body: "{query:hub.challenge}",
			}},
			SignatureHeaders: []string{"X-Hub-Signature-256", "X-Hub-Signature"},
			Options:          []string{"verify_token"},
		},
		{
			Name: "whereby", Title: "Whereby",
			Docs:        "https://docs.whereby.com/monitoring-usage/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Whereby retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:Whereby-Signature", Format: FormatKV, Key: "v1",
				Signed: "{timestamp}.{body}", Timestamp: "sig:t"}}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"Whereby-Signature"},
		},
		{
			Name: "wise", Title: "Wise",
			Docs:        "https://docs.wise.com/api-docs/features/webhooks-notifications/event-handling",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Wise retries", "how long it waits for an answer"},
			// Sandbox and production have different keys. The older X-Signature holds
			// SHA-1 and is not looked at.
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: RSASHA256, Scheme: Scheme{
				Sig: "header:X-Signature-SHA256", Encoding: Base64, Signed: "{body}"}}}},
			ID: []string{"header:X-Delivery-Id"}, Type: []string{"json:event_type"},
			NeverID: []string{"json:subscription_id", "json:data.resource.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: 14 * day, Window: 16 * day, Patience: 5 * second,
			Handshake:        []Handshake{{Name: "test", Method: "POST", Detect: []string{"header:X-Test-Notification=true"}, Open: true}},
			EventHeaders:     []string{"X-Delivery-Id"},
			SignatureHeaders: []string{"X-Signature-SHA256"},
		},
		{
			Name: "wix", Title: "Wix",
			Docs:        "https://dev.wix.com/docs/rest/articles/getting-started/webhook-resend-policy",
			Unconfirmed: []string{"whether a part of the body names an event for ever"},
			// The body is a token, and its claim data is JSON in a string.
			Modes: []Mode{{Name: "jwt", JWT: &JWT{In: "body:", Algorithms: []string{"RS256"}, Claims: map[string]string{"aud": "$app_id?"}}}},
			Type:  []string{"json:data|json:eventType"},
			NoID:  NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: 2 * day, Window: 4 * day, Patience: 5 * second / 4,
			Answer:  Answer{Status: 200},
			Options: []string{"app_id"},
		},
		{
			Name: "woocommerce", Title: "WooCommerce",
			Docs:  "https://woocommerce.com/document/webhooks/",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-WC-Webhook-Signature", Encoding: Base64, Signed: "{body}"}}}},
			Type:  []string{"header:X-WC-Webhook-Topic"},
			// The delivery ID is made of the second: two events in one share it.
			NeverID: []string{"header:X-WC-Webhook-Delivery-ID", "header:X-WC-Webhook-ID", "json:id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: hour, Window: day, Patience: 60 * second,
			// Nothing is retried. Saving a webhook sends a form that is never signed and wants
			// exactly 200.
			Handshake: []Handshake{{Name: "ping", Method: "POST", Detect: []string{"form:webhook_id", "!header:X-WC-Webhook-Signature"}, Open: true}},
			EventHeaders: []string{"X-WC-Webhook-Topic", "X-WC-Webhook-Resource", "X-WC-Webhook-Event", "X-WC-Webhook-ID", "X-WC-Webhook-Delivery-ID",
				"X-WC-Webhook-Source"},
			SignatureHeaders: []string{"X-WC-Webhook-Signature"},
		},
		placedToken(Row{
			Name: "workday", Title: "Workday", Docs: "https://developer.workday.com/",
			Unconfirmed: []string{"how Workday authenticates: it has no public webhooks", "where the event ID is", "how long Workday retries"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
		}, "header:X-Webhook-Token"),
		{
			Name: "workos", Title: "WorkOS",
			Docs:        "https://workos.com/docs/events/data-syncing/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long WorkOS retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:WorkOS-Signature", Format: FormatKV, Key: "v1",
				Signed: "{timestamp}.{body}", Timestamp: "sig:t", Unit: Milliseconds, Tolerance: 3 * minute}}}},
			ID: []string{"json:id"}, Type: []string{"json:event"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			SignatureHeaders: []string{"WorkOS-Signature"},
		},
		{
			Name: "x", Title: "X",
			Docs:        "https://docs.x.com/x-api/webhooks/introduction",
			Unconfirmed: []string{"which parts name an event for ever"},
			// sha256= is followed by base64.
			Modes:   []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Twitter-Webhooks-Signature", Prefix: "sha256=", Encoding: Base64, Signed: "{body}"}}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"key:*_events+json:*_events.0.id_str", "key:*_events+json:*_events.0.id"},
			Type:    []string{"key:*_events,*_event"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: hour, Window: day, Patience: 3 * second,
			Handshake: []Handshake{{
				Name: "crc", Method: "GET", Detect: []string{"query:crc_token"}, Open: true, SignsOutsider: true,
				JSON: map[string]string{"response_token": "sha256={hmac-base64:query:crc_token}"},
			}},
			SignatureHeaders: []string{"X-Twitter-Webhooks-Signature"},
		},
		{
			Name: "xendit", Title: "Xendit",
			Docs:        "https://docs.xendit.co/webhook/getting-started/",
			Unconfirmed: []string{"where the event type is"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "header:X-Callback-Token"}}},
			// Named like that of Standard Webhooks and has nothing to do with it.
			ID: []string{"header:Webhook-Id"}, Type: []string{"json:event"},
			NeverID: []string{"json:id", "json:external_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck,
			Retries: 2 * day, Window: 3 * day, Patience: 30 * second,
			EventHeaders:      []string{"Webhook-Id"},
			CredentialHeaders: []string{"X-Callback-Token"},
		},
		{
			Name: "xero", Title: "Xero",
			Docs:        "https://developer.xero.com/documentation/guides/webhooks/overview/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Xero retries", "which answers it wants"},
			Modes:       []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Xero-Signature", Encoding: Base64, Signed: "{body}"}}}},
			ID:          []string{"json:resourceId+json:eventType+json:eventDateUtc"}, Type: []string{"json:eventCategory+json:eventType"},
			NeverID: []string{"json:resourceId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 5 * second,
			Batch: &Batch{Path: "events"},
			// The intent check is an empty batch, signed rightly and wrongly: it fails
			// where either answer has a body.
			Answer:           Answer{Status: 200},
			Refusal:          &Answer{Status: 401},
			SignatureHeaders: []string{"X-Xero-Signature"},
		},
		{
			Name: "youtube", Title: "YouTube push notifications",
			Docs:        "https://developers.google.com/youtube/v3/guides/push_notifications",
			Unconfirmed: []string{"how the signature is written", "which parts name an event for ever", "how long the hub retries", "which answers it wants"},
			// Signed only where the subscription named a secret.
			Modes:   []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{Sig: "header:X-Hub-Signature", Prefix: "{digest}=", Signed: "{body}"}}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"xml:entry/id+xml:entry/updated"}, NeverID: []string{"xml:entry/id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake:        hubIntents(),
			EventHeaders:     []string{"Link"},
			SignatureHeaders: []string{"X-Hub-Signature"},
			Options:          []string{"algorithm", "topics", "unsubscribing"},
		},
		placedToken(Row{
			Name: "zapier", Title: "Webhooks by Zapier", Docs: "https://help.zapier.com/hc/en-us/articles/8496326446989",
			Unconfirmed: []string{"how Zapier authenticates: people choose a header", "where the event ID is", "how long Zapier retries"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
			Methods:     []string{"POST", "PUT"},
		}, "header:X-Webhook-Token"),
		{
			Name: "zendesk", Title: "Zendesk",
			Docs:        "https://developer.zendesk.com/documentation/webhooks/verifying/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Zendesk retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Zendesk-Webhook-Signature", Encoding: Base64,
				Signed: "{timestamp}{body}", Timestamp: "header:X-Zendesk-Webhook-Signature-Timestamp", Unit: RFC3339}}}},
			Methods: []string{"POST", "PUT", "PATCH", "DELETE", "GET"},
			// What triggers and automations send is whatever someone wrote.
			ID: []string{"header:X-Zendesk-Webhook-Invocation-Id", "json:id"}, Type: []string{"json:type"},
			NeverID: []string{"header:X-Zendesk-Webhook-Id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: hour, Window: day, Patience: 12 * second,
			EventHeaders:     []string{"X-Zendesk-Account-Id", "X-Zendesk-Webhook-Id", "X-Zendesk-Webhook-Invocation-Id"},
			SignatureHeaders: []string{"X-Zendesk-Webhook-Signature", "X-Zendesk-Webhook-Signature-Timestamp"},
		},
		{
			Name: "zoho_desk", Title: "Zoho Desk",
			Docs:        "https://desk.zoho.com/support/WebhookDocument.do",
			Unconfirmed: []string{"where the event type is"},
			// Any customer of Zoho has a token: issuer and audience make it ours. The
			// body is not covered.
			Modes: []Mode{{Name: "jwt", JWT: &JWT{In: "header:X-ZDesk-JWT", Algorithms: []string{"RS256"},
				Keys:   &KeySource{Kind: "jwks", URL: "https://desk.{option:domain}/.well-known/jwks.json"},
				Claims: map[string]string{"iss": "orgId:$org_id", "aud": "webhookId:$webhook_id", "exp": "*"}}}},
			Type: []string{"json:eventType"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 5 * second,
			Batch:             &Batch{Optional: true},
			CredentialHeaders: []string{"X-ZDesk-JWT"},
			OptionSets:        map[string][]string{"org_id": {"domain=zoho.com"}},
			Options:           []string{"org_id", "webhook_id", "domain"},
		},
		{
			Name: "zoom", Title: "Zoom",
			Docs: "https://developers.zoom.us/docs/api/webhooks/",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Zm-Signature", Prefix: "v0=",
				Signed: "v0:{timestamp}:{body}", Timestamp: "header:X-Zm-Request-Timestamp"}}}},
			ID: []string{"json:event+json:event_ts+json:payload.object.uuid"}, Type: []string{"json:event"},
			NeverID: []string{"header:X-Zm-Request-Timestamp", "header:X-Zm-Trackingid"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 90 * minute, Window: day, Patience: 3 * second,
			Handshake: []Handshake{{
				Name: "url_validation", Method: "POST", Detect: []string{"json:event=endpoint.url_validation"}, Verify: true,
				JSON: map[string]string{"plainToken": "{json:payload.plainToken}", "encryptedToken": "{hmac:json:payload.plainToken}"},
			}},
			EventHeaders:     []string{"X-Zm-Trackingid"},
			SignatureHeaders: []string{"X-Zm-Signature", "X-Zm-Request-Timestamp"},
		},
		{
			Name: "zuora", Title: "Zuora",
			Docs:        "https://docs.zuora.com/en/zuora-platform/extensibility/events-and-notifications/configure-callout-settings",
			Unconfirmed: []string{"which answers it wants", "how callouts with OAuth look"},
			Modes: []Mode{
				{Name: "basic", Basic: &Basic{}},
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
			},
			// The request's ID is another one for every attempt.
			ID: []string{"header:Zuora-Notification-Id"}, NeverID: []string{"header:Zuora-Request-Id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck,
			Retries: 4 * day, Window: 6 * day, Patience: 10 * second,
			// Credentials come only after this challenge, unless the callout says otherwise.
			Refusal:           &Answer{Status: 401, Header: map[string]string{"WWW-Authenticate": `Basic realm="webhooks"`}},
			EventHeaders:      []string{"Zuora-Notification-Id"},
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"id", "type"},
		},
	}
}
