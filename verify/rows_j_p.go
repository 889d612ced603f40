package verify

// rowsJToP are the rows whose names begin with j to p.
func rowsJToP() []Row {
	return []Row{
		{
			Name: "jira", Title: "Jira Cloud",
			Docs:        "https://developer.atlassian.com/cloud/jira/platform/webhooks/",
			Unconfirmed: []string{"how often Jira retries"},
			// Hooks of Connect and OAuth apps are signed otherwise or not at all.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Hub-Signature", Prefix: "sha256=", Signed: "{body}"},
			}}},
			ID: []string{"header:X-Atlassian-Webhook-Identifier"}, Type: []string{"json:webhookEvent"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 3 * hour, Window: 2 * day, Patience: 10 * second,
			EventHeaders:     []string{"X-Atlassian-Webhook-Identifier", "X-Atlassian-Webhook-Retry", "X-Atlassian-Webhook-Flow"},
			SignatureHeaders: []string{"X-Hub-Signature"},
		},
		{
			Name: "jobber", Title: "Jobber",
			Docs:        "https://developer.getjobber.com/docs/using_jobbers_api/setting_up_webhooks/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Jobber retries"},
			// The secret is that of the OAuth client.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Jobber-Hmac-SHA256", Encoding: Base64, Signed: "{body}"},
			}}},
			ID:   []string{"json:data.webHookEvent.topic+json:data.webHookEvent.itemId+json:data.webHookEvent.occurredAt"},
			Type: []string{"json:data.webHookEvent.topic"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: second,
			SignatureHeaders: []string{"X-Jobber-Hmac-SHA256"},
		},
		{
			Name: "jotform", Title: "Jotform",
			Docs:        "https://www.jotform.com/help/245-how-to-setup-a-webhook-with-jotform/",
			Unconfirmed: []string{"how long Jotform retries"},
			// Nothing is signed: the secret is part of the URL that the operator registers.
			Modes: []Mode{{Name: "token", Token: &Token{In: "query:token"}}},
			ID:    []string{"form:submissionID"},
			// An edited submission comes again under its ID.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
		},
		{
			Name: "kinde", Title: "Kinde",
			Docs: "https://docs.kinde.com/integrate/webhooks/about-webhooks/",
			// The whole body is a token whose claims are the event. It has no claim that
			// a library would read as its time.
			Modes: []Mode{{Name: "jwt", JWT: &JWT{
				In: "body:", Algorithms: []string{"RS256"},
				Keys: &KeySource{Kind: "jwks", URL: "https://{option:domain}/.well-known/jwks"},
			}}},
			ID: []string{"json:event_id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 36 * hour, Window: 3 * day, Patience: 10 * second,
			EventHeaders: []string{"Webhook-Id"},
			Options:      []string{"domain"},
		},
		{
			Name: "klarna", Title: "Klarna",
			Docs:        "https://docs.klarna.com/klarna-network-distribution/setup-your-integration/connection-configuration/setup-your-webhooks/",
			Unconfirmed: []string{"whether the signature is written in hex or in base64 (option encoding)", "whether the ID stays the same over retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:Klarna-Signature", Signed: "{body}"},
			}}},
			ID: []string{"json:metadata.event_id"}, Type: []string{"json:metadata.event_type"},
			NeverID: []string{"json:metadata.webhook_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 22 * hour, Window: 3 * day, Patience: 10 * second,
			EventHeaders:     []string{"Klarna-Signing-Key-Id"},
			SignatureHeaders: []string{"Klarna-Signature"},
			Options:          []string{"encoding"},
		},
		{
			Name: "klaviyo", Title: "Klaviyo system webhooks",
			Docs:        "https://developers.klaviyo.com/en/docs/working_with_system_webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Klaviyo retries", "the unit of the timestamp"},
			// The time comes last and without a separator. Webhooks of flows are unsigned.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Klaviyo-Signature", Signed: "{body}{timestamp}", Timestamp: "header:Klaviyo-Timestamp", Unit: AnyTime,
			}}}},
			ID: []string{"json:external_id", "json:id"}, Type: []string{"json:topic"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Batch:            &Batch{Path: "data", Optional: true},
			EventHeaders:     []string{"Klaviyo-Webhook-Id"}, // the subscription
			SignatureHeaders: []string{"Klaviyo-Signature", "Klaviyo-Timestamp"},
		},
		{
			Name: "launchdarkly", Title: "LaunchDarkly",
			Docs:        "https://launchdarkly.com/docs/home/infrastructure/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long LaunchDarkly retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-LD-Signature", Signed: "{body}"},
			}}},
			ID: []string{"json:_id"}, Type: []string{"json:kind"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-LD-Signature"},
		},
		{
			Name: "lemonsqueezy", Title: "Lemon Squeezy",
			Docs: "https://docs.lemonsqueezy.com/help/webhooks/signing-requests",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Signature", Signed: "{body}"},
			}}},
			Type:    []string{"header:X-Event-Name"},
			NeverID: []string{"json:data.id"}, // the order or subscription, through all of its changes
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Retries: 10 * minute, Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Event-Name"},
			SignatureHeaders: []string{"X-Signature"},
		},
		{
			Name: "lever", Title: "Lever",
			Docs:        "https://hire.lever.co/developer/documentation#webhooks",
			Unconfirmed: []string{"the bytes that are signed", "whether the ID stays the same over retries", "how long Lever retries"},
			// The signature leaves out the event itself, as Mailgun's does.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "json:signature", Signed: "{json:token}{timestamp}", Timestamp: "json:triggeredAt", Unit: Milliseconds,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 5 * second,
		},
		{
			Name: "line", Title: "LINE Messaging API",
			Docs:        "https://developers.line.biz/en/docs/messaging-api/verify-webhook-signature/",
			Unconfirmed: []string{"how long LINE redelivers"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Line-Signature", Encoding: Base64, Signed: "{body}"},
			}}},
			ID: []string{"json:webhookEventId"}, Type: []string{"json:type"},
			NeverID: []string{"json:replyToken", "json:message.id"},
			// A redelivery says so in the body. The Verify button sends no events.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 2 * second,
			Batch:            &Batch{Path: "events"},
			Answer:           Answer{Status: 200}, // and no body, for the Verify button
			SignatureHeaders: []string{"X-Line-Signature"},
		},
		{
			Name: "linear", Title: "Linear",
			Docs:        "https://linear.app/developers/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			// The time is read from the signed body only: the header Linear-Timestamp is
			// not signed.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Linear-Signature", Signed: "{body}",
				Timestamp: "json:webhookTimestamp", TimeOptional: true, Unit: Milliseconds, Tolerance: minute,
			}}}},
			ID: []string{"header:Linear-Delivery"}, Type: []string{"header:Linear-Event", "json:type"},
			NeverID: []string{"json:webhookId", "json:data.id"},
			// Every attempt has a time of its own in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, Guard: GuardFlag,
			Retries: 8 * hour, Window: 2 * day, Patience: 5 * second,
			EventHeaders:     []string{"Linear-Delivery", "Linear-Event", "Linear-Timestamp"},
			SignatureHeaders: []string{"Linear-Signature"},
		},
		{
			Name: "linkedin", Title: "LinkedIn",
			Docs:        "https://learn.microsoft.com/en-us/linkedin/shared/api-guide/webhook-validation",
			Unconfirmed: []string{"whether the header repeats the signed word", "whether the ID stays the same over retries", "how long LinkedIn retries"},
			// The secret is that of the client; the word before the body is signed.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-LI-Signature", Prefix: "hmacsha256=", PrefixOptional: true, Signed: "hmacsha256={body}",
			}}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:notificationId"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 3 * second,
			Handshake: []Handshake{{
				// Comes again every two hours.
				Name: "challenge", Method: "GET", Detect: []string{"query:challengeCode"}, Open: true, SignsOutsider: true,
				JSON: map[string]string{"challengeCode": "{query:challengeCode}", "challengeResponse": "{hmac:query:challengeCode}"},
			}},
			SignatureHeaders: []string{"X-LI-Signature"},
		},
		{
			Name: "linq", Title: "Linq",
			Docs:        "https://apidocs.linqapp.com/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Linq retries"},
			Modes:       []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}}},
			ID:          []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "livekit", Title: "LiveKit",
			Docs:        "https://docs.livekit.io/home/server/webhooks/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long LiveKit retries"},
			Modes: []Mode{{Name: "jwt", JWT: &JWT{
				In: "header:Authorization", Prefix: "Bearer ", PrefixOptional: true, Algorithms: []string{"HS256"},
				Claims: map[string]string{"iss": "$api_key?", "exp": "*"}, BodyHash: "sha256", HashEncoding: Base64, Leeway: second,
			}}},
			ID: []string{"json:id"}, Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"api_key"},
		},
		{
			Name: "lob", Title: "Lob",
			Docs:        "https://docs.lob.com/#tag/Webhooks",
			Unconfirmed: []string{"the unit of the timestamp", "whether the ID stays the same over retries", "how long Lob retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Lob-Signature", Signed: "{timestamp}.{body}", Timestamp: "header:Lob-Signature-Timestamp", Unit: AnyTime,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:event_type.id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"Lob-Signature", "Lob-Signature-Timestamp"},
		},
		{
			Name: "loops", Title: "Loops",
			Docs:        "https://loops.so/docs/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Loops retries"},
			Modes:       []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}}},
			ID:          []string{"header:Webhook-Id"}, Type: []string{"json:eventName"},
			NeverID: []string{"json:email.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 3 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "magento", Title: "Adobe Commerce (Magento)",
			Docs:        "https://developer.adobe.com/commerce/extensibility/webhooks/signature-verification/",
			Unconfirmed: []string{"whether Adobe Commerce retries"},
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: RSASHA256, Scheme: Scheme{
				Sig: "header:X-Adobe-Commerce-Webhook-Signature", Encoding: Base64, Signed: "{body_base64}",
			}}}},
			// The call is part of what a customer does in the shop, who may do the same
			// twice. The shop reads from the answer what to do; this one changes nothing.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Window: day, Patience: 5 * second,
			Answer:           Answer{Status: 200, ContentType: "application/json", Body: Text(`{"op":"success"}`)},
			EventHeaders:     []string{"X-Adobe-Commerce-Request-Id"},
			SignatureHeaders: []string{"X-Adobe-Commerce-Webhook-Signature"},
		},
		{
			Name: "mailchimp", Title: "Mailchimp Marketing",
			Docs:        "https://mailchimp.com/developer/marketing/guides/sync-audience-data-webhooks/",
			Unconfirmed: []string{"that Mailchimp tests the address with GET", "how long Mailchimp retries", "how long it waits for an answer"},
			// Nothing is signed: the secret is part of the URL that the operator registers.
			Modes:   []Mode{{Name: "token", Token: &Token{In: "query:token"}}},
			Methods: []string{"POST", "GET"},
			Type:    []string{"form:type"},
			NeverID: []string{"form:data[id]"}, // the subscriber
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			Handshake: []Handshake{{Name: "test of the address", Method: "GET", Verify: true}},
		},
		{
			Name: "mailersend", Title: "MailerSend",
			Docs:        "https://developers.mailersend.com/api/v1/webhooks.html",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long MailerSend retries"},
			// Inbound routes have a secret of their own.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:Signature", Signed: "{body}"},
			}}},
			ID: []string{"json:data.id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 3 * second,
			SignatureHeaders: []string{"Signature"},
		},
		{
			Name: "mailgun", Title: "Mailgun",
			Docs: "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
			// The signature leaves out the event itself: who has seen one request can
			// send others with its signature for as long as the time is near enough.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "json:signature.signature ?? form:signature", Signed: "{timestamp}{json:signature.token ?? form:token}",
				Timestamp: "json:signature.timestamp ?? form:timestamp", Tolerance: 15 * minute,
			}}}},
			ID: []string{"json:event-data.id"}, Type: []string{"json:event-data.event", "form:event"},
			NeverID: []string{"json:signature.token", "form:token"}, // new for every attempt
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, AnyBody: true,
			Retries: 8 * hour, Window: 2 * day, Patience: 10 * second,
		},
		{
			Name: "mailjet", Title: "Mailjet Event API",
			Docs:        "https://dev.mailjet.com/email/guides/webhooks/",
			Unconfirmed: []string{"which answers Mailjet wants", "how long Mailjet retries"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
			ID:          []string{"json:MessageID+json:event+json:time"}, Type: []string{"json:event"},
			NeverID: []string{"json:MessageID"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			Batch:             &Batch{Optional: true},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "mandrill", Title: "Mailchimp Transactional (Mandrill)",
			Docs:        "https://mailchimp.com/developer/transactional/guides/track-respond-activity-webhooks/",
			Unconfirmed: []string{"how long Mandrill retries"},
			// The URL is signed exactly as configured there, with user and password where
			// it has them.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{
				Sig: "header:X-Mandrill-Signature", Encoding: Base64, Signed: "{url}{form}",
			}}}},
			Methods: []string{"POST", "HEAD"},
			ID:      []string{"json:_id+json:event+json:ts"}, Type: []string{"json:event", "json:type"},
			NeverID: []string{"json:_id"}, // the message, through all that happens to it
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			Batch:            &Batch{Path: "form:mandrill_events"},
			Handshake:        []Handshake{{Name: "test of the address", Method: "HEAD", Open: true}},
			SignatureHeaders: []string{"X-Mandrill-Signature"},
		},
		{
			Name: "mattermost_outgoing", Title: "Mattermost outgoing webhooks",
			Docs:        "https://developers.mattermost.com/integrate/webhooks/outgoing/",
			Unconfirmed: []string{"whether Mattermost retries"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "form:token ?? json:token"}}},
			ID:          []string{"form:post_id", "json:post_id"}, Type: []string{"form:trigger_word", "json:trigger_word"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: day, Patience: 5 * second,
			// Without a text, nothing is posted.
			Answer: Answer{Status: 200, ContentType: "application/json", Body: Text("{}")},
		},
		{
			Name: "mercury", Title: "Mercury",
			Docs:        "https://docs.mercury.com/reference/webhooks",
			Unconfirmed: []string{"the bytes that are signed", "whether the ID stays the same over retries", "how long Mercury retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Mercury-Signature", Format: FormatKV, Key: "v1", Signed: "{timestamp}.{body}",
				Timestamp: "sig:t", Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:resourceType+json:operationType", "json:event"},
			NeverID: []string{"json:resourceId"},
			// Onboarding webhooks have no ID.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 25 * hour, Window: 3 * day, Patience: 5 * second,
			SignatureHeaders: []string{"Mercury-Signature"},
		},
		{
			Name: "meta", Title: "Meta (Facebook, Instagram, Messenger, WhatsApp, Threads)",
			Docs:        "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
			Unconfirmed: []string{"how long Meta retries", "how long it waits for an answer"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Hub-Signature-256", Prefix: "sha256=", Signed: "{body}"},
			}}},
			Methods: []string{"POST", "GET"},
			// A message's ID comes again with its deletion and its reactions, which are
			// other bodies and so delivered.
			ID:      []string{"json:message.mid", "parent:id+parent:time+json:field+json:value|sha256"},
			Type:    []string{"body:object+json:field", "body:object"},
			NeverID: []string{"parent:id"}, // the page or user
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 36 * hour, Window: 3 * day, Patience: 5 * second,
			Batch: &Batch{Path: "entry[].changes", Also: []string{"entry[].messaging"}, Optional: true},
			Handshake: []Handshake{{
				Name: "subscribe", Method: "GET", Detect: []string{"query:hub.mode=subscribe"},
				Compare: []string{"query:hub.verify_token=verify_token"}, Fail: 403, Body: "{query:hub.challenge}",
			}},
			SignatureHeaders: []string{"X-Hub-Signature-256", "X-Hub-Signature"},
			Options:          []string{"verify_token"},
		},
		{
			Name: "modern_treasury", Title: "Modern Treasury",
			Docs:        "https://docs.moderntreasury.com/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "where the type is", "how long Modern Treasury retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Signature", Signed: "{body}"},
			}}},
			ID: []string{"header:X-Webhook-ID"}, Type: []string{"header:X-Topic"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Webhook-ID", "X-Topic"},
			SignatureHeaders: []string{"X-Signature"},
		},
		{
			Name: "mollie", Title: "Mollie",
			Docs:        "https://docs.mollie.com/reference/webhooks-new",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Mollie retries"},
			// Classic webhooks (id=tr_…) are unsigned and have no event ID: the same ID
			// comes for every change of a payment. They belong to a source of their own.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Mollie-Signature", Prefix: "sha256=", PrefixOptional: true, Repeat: true, Signed: "{body}"},
			}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:entityId", "form:id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 26 * hour, Window: 3 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-Mollie-Signature"},
		},
		{
			Name: "monday", Title: "monday.com",
			Docs:        "https://developer.monday.com/api-reference/reference/webhooks",
			Unconfirmed: []string{"how long monday.com retries"},
			// The token says nothing of the body. Webhooks made with a personal token have
			// none: for these a secret goes into the URL.
			Modes: []Mode{
				{Name: "jwt", JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", PrefixOptional: true, Algorithms: []string{"HS256"},
					Claims: map[string]string{"exp": "*"}, Leeway: 10 * second}},
				{Name: "token", Token: &Token{In: "query:token"}},
			},
			ID: []string{"json:event.triggerUuid"}, Type: []string{"json:event.type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 30 * minute, Window: day, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "challenge", Method: "POST", Detect: []string{"json:challenge", "!key:!challenge"}, Open: true,
				JSON: map[string]string{"challenge": "{json:challenge}"},
			}},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "mongodb_atlas", Title: "MongoDB Atlas alerts",
			Docs:        "https://www.mongodb.com/docs/atlas/tutorial/webhook-integration/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Atlas retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1,
				Scheme: Scheme{Sig: "header:X-MMS-Signature", Encoding: Base64, Signed: "{body}"},
			}}},
			ID: []string{"json:id+json:status"}, Type: []string{"header:X-MMS-Event"},
			NeverID: []string{"json:id"}, // the alert, through all of its states
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-MMS-Event"},
			SignatureHeaders: []string{"X-MMS-Signature"},
		},
		{
			Name: "msgraph", Title: "Microsoft Graph change notifications",
			Docs:        "https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes:       []Mode{{Name: "client_state", Token: &Token{In: "json:clientState", Each: "value"}}},
			ID:          []string{"json:id"}, Type: []string{"json:changeType", "json:lifecycleEvent"},
			NeverID: []string{"json:subscriptionId", "json:resourceData.id"},
			// Two changes of one resource are the same bytes where there is no ID.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver,
			Retries: 4 * hour, Window: 2 * day, Patience: 3 * second,
			Batch: &Batch{Path: "value"},
			Handshake: []Handshake{{
				Name: "validation", Method: "POST", Detect: []string{"query:validationToken ?? query:validationtoken"}, Open: true,
				Body: "{query:validationToken ?? query:validationtoken}",
			}},
		},
		{
			Name: "msteams_outgoing", Title: "Microsoft Teams outgoing webhooks",
			Docs:        "https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook",
			Unconfirmed: []string{"whether Teams retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretBase64,
				Scheme: Scheme{Sig: "header:Authorization", Prefix: "HMAC ", Encoding: Base64, Signed: "{body}"},
			}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			// IDs are times and unique in a conversation only.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: day, Patience: 5 * second,
			// Without a message Teams tells the user that the hook is broken.
			Answer: Answer{Status: 200, ContentType: "application/json", Body: Text(`{"type":"message","text":"Received"}`)},
		},
		{
			Name: "mux", Title: "Mux",
			Docs:        "https://www.mux.com/docs/core/verify-webhook-signatures",
			Unconfirmed: []string{"how long Mux retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Mux-Signature", Format: FormatKV, Key: "v1", Signed: "{timestamp}.{body}", Timestamp: "sig:t",
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:request_id"},
			// Earlier attempts are listed in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 5 * second,
			SignatureHeaders: []string{"Mux-Signature"},
		},
		{
			Name: "netlify", Title: "Netlify deploy notifications",
			Docs:        "https://docs.netlify.com/site-deploys/deploy-notifications/",
			Unconfirmed: []string{"which parts name an event for ever", "where the type is", "how long Netlify retries"},
			// The token has no time.
			Modes: []Mode{{Name: "jws", JWT: &JWT{In: "header:X-Webhook-Signature", Algorithms: []string{"HS256"},
				Claims: map[string]string{"iss": "netlify"}, BodyHash: "sha256"}}},
			ID: []string{"json:id+json:state"}, Type: []string{"header:X-Netlify-Event"},
			NeverID: []string{"json:id"}, // the deploy, through all of its states
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: hour, Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-Netlify-Event"},
			SignatureHeaders: []string{"X-Webhook-Signature"},
		},
		{
			Name: "new_relic", Title: "New Relic workflows",
			Docs:        "https://docs.newrelic.com/docs/alerts/get-notified/notification-integrations/",
			Unconfirmed: []string{"how long New Relic retries"},
			// Header, ID and type are whatever the operator puts into the destination and
			// its template.
			Modes: []Mode{
				{Name: "token", Token: &Token{In: "header:X-Webhook-Token"}},
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
				{Name: "basic", Basic: &Basic{}},
			},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization", "X-Webhook-Token"},
			Options:           []string{"id", "type", "token_header"},
		},
		{
			Name: "notion", Title: "Notion",
			Docs:        "https://developers.notion.com/reference/webhooks",
			Unconfirmed: []string{"how long Notion retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Notion-Signature", Prefix: "sha256=", Signed: "{body}"},
			}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			// The number of the attempt is in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			Handshake: []Handshake{{
				// Signed, but with the secret that it brings.
				Name: "verification token", Method: "POST", Detect: []string{"json:verification_token", "!json:id"},
				Open: true, Capture: "json:verification_token", Pending: "registration_pending",
			}},
			SignatureHeaders: []string{"X-Notion-Signature"},
			Options:          []string{"registration_pending"},
		},
		{
			Name: "npm", Title: "npm hooks",
			Docs:        "https://github.com/npm/npm-hook-receiver",
			Unconfirmed: []string{"how long npm retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Npm-Signature", Prefix: "sha256=", Signed: "{body}"},
			}}},
			Type: []string{"json:event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Npm-Signature"},
		},
		{
			Name: "nylas", Title: "Nylas v3",
			Docs:        "https://developer.nylas.com/docs/v3/notifications/",
			Unconfirmed: []string{"how long Nylas retries"},
			// Compressed delivery has to be off: the signature is then over compressed
			// bytes, in which there is no ID to be read.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Nylas-Signature", Signed: "{body}"},
			}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.object.id"},
			// The number of the attempt is in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "challenge", Method: "GET", Detect: []string{"query:challenge"}, Open: true, Body: "{query:challenge}",
			}},
			SignatureHeaders: []string{"X-Nylas-Signature"},
		},
		{
			Name: "okta", Title: "Okta event hooks",
			Docs:  "https://developer.okta.com/docs/concepts/event-hooks/",
			Modes: []Mode{{Name: "token", Token: &Token{In: "header:Authorization"}}},
			// Inline hooks are synchronous and nothing for a queue.
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:uuid"}, Type: []string{"json:eventType"},
			NeverID: []string{"body:eventId"}, // the delivery
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck,
			Retries: minute, Window: day, Patience: 3 * second,
			Batch: &Batch{Path: "data.events"},
			Handshake: []Handshake{{
				Name: "verification", Method: "GET", Detect: []string{"header:X-Okta-Verification-Challenge"}, Open: true,
				JSON: map[string]string{"verification": "{header:X-Okta-Verification-Challenge}"},
			}},
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"token_header"},
		},
		{
			Name: "onfido", Title: "Onfido (Entrust)",
			Docs:        "https://documentation.onfido.com/api/latest/#webhooks",
			Unconfirmed: []string{"how long Onfido retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-SHA2-Signature", Signed: "{body}"},
			}}},
			ID: []string{"json:payload.action+json:payload.object.id+json:payload.object.completed_at_iso8601"}, Type: []string{"json:payload.action"},
			NeverID: []string{"json:payload.object.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 13 * hour, Window: 3 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-SHA2-Signature"},
		},
		{
			Name: "onfleet", Title: "Onfleet",
			Docs:        "https://docs.onfleet.com/reference/webhooks",
			Unconfirmed: []string{"which parts name an event for ever"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA512, Secret: SecretHex,
				Scheme: Scheme{Sig: "header:X-Onfleet-Signature", Signed: "{body}"},
			}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:triggerId+json:taskId+json:time", "json:triggerId+json:workerId+json:time"}, Type: []string{"json:triggerId"},
			NeverID: []string{"json:taskId", "json:workerId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "check", Method: "GET", Detect: []string{"query:check"}, Open: true, Body: "{query:check}",
			}},
			SignatureHeaders: []string{"X-Onfleet-Signature"},
		},
		{
			Name: "openai", Title: "OpenAI",
			Docs:        "https://platform.openai.com/docs/guides/webhooks",
			Unconfirmed: []string{"how long OpenAI retries"},
			Modes:       []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}}},
			// The ID in the body (evt_…) is another one and would do as well.
			ID: []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 3 * day, Window: 4 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "opsgenie", Title: "Opsgenie",
			Docs:        "https://support.atlassian.com/opsgenie/docs/integrate-opsgenie-with-webhook/",
			Unconfirmed: []string{"that a header of one's own can be configured", "which parts name an event for ever", "how long Opsgenie retries"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "header:Authorization"}}},
			ID:          []string{"json:alert.alertId+json:action+json:alert.updatedAt"}, Type: []string{"json:action"},
			NeverID: []string{"json:alert.alertId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"token_header"},
		},
		{
			Name: "paddle", Title: "Paddle Billing",
			Docs: "https://developer.paddle.com/webhooks/about/signature-verification",
			// Paddle's own libraries allow five seconds, which a full queue uses up.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Paddle-Signature", Format: FormatKV, Sep: ";", Key: "h1", Signed: "{timestamp}:{body}",
				Timestamp: "sig:ts", Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:event_id"}, Type: []string{"json:event_type"},
			NeverID: []string{"json:notification_id", "json:data.id"}, // one per destination; the object
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true, AnyBody: true,
			Retries: 3 * day, Window: 7 * day, Patience: 5 * second,
			SignatureHeaders: []string{"Paddle-Signature"},
		},
		{
			Name: "pagerduty", Title: "PagerDuty v3",
			Docs: "https://docs.pagerduty.com/developer/verifying-webhook-signatures",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-PagerDuty-Signature", Format: FormatKV, Key: "v1", Signed: "{body}",
			}}}},
			ID: []string{"header:X-Webhook-Id"}, Type: []string{"json:event.event_type"},
			NeverID: []string{"json:event.data.id"},
			// What is answered with 4xx other than 429 is dropped and never sent again.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 2 * day, Window: 4 * day, Patience: 5 * second,
			EventHeaders:     []string{"X-Webhook-Id", "X-Webhook-Subscription"},
			SignatureHeaders: []string{"X-PagerDuty-Signature"},
		},
		{
			Name: "pandadoc", Title: "PandaDoc",
			Docs:        "https://developers.pandadoc.com/docs/webhook-verification",
			Unconfirmed: []string{"which parts name an event for ever", "how long PandaDoc retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{
				Scheme: Scheme{Sig: "query:signature", Signed: "{body}"},
			}}},
			ID: []string{"json:event+json:data.id+json:data.date_modified"}, Type: []string{"json:event"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 20 * second,
			Batch:            &Batch{Optional: true},
			CredentialParams: []string{"query:signature"},
		},
		{
			Name: "paystack", Title: "Paystack",
			Docs:        "https://paystack.com/docs/payments/webhooks/",
			Unconfirmed: []string{"which parts name an event for ever", "how long Paystack retries"},
			// The secret is the key of the API itself.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA512,
				Scheme: Scheme{Sig: "header:X-Paystack-Signature", Signed: "{body}"},
			}}},
			ID: []string{"json:event+json:data.id"}, Type: []string{"json:event"},
			NeverID: []string{"json:data.reference", "json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			SignatureHeaders: []string{"X-Paystack-Signature"},
		},
		{
			Name: "persona", Title: "Persona",
			Docs:        "https://docs.withpersona.com/webhooks",
			Unconfirmed: []string{"how long Persona retries"},
			// While a secret is rotated there are two lists, each with its own time. The
			// secret is used with its prefix wbhsec_.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Persona-Signature", Format: FormatKV, Key: "v1", Groups: true, Signed: "{timestamp}.{body}", Timestamp: "sig:t",
			}}}},
			ID: []string{"json:data.id"}, Type: []string{"json:data.attributes.name"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 5 * second,
			SignatureHeaders: []string{"Persona-Signature"},
		},
		{
			Name: "pipedrive", Title: "Pipedrive",
			Docs:        "https://pipedrive.readme.io/docs/guide-for-webhooks-v2",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Pipedrive retries", "how long it waits for an answer"},
			Modes:       []Mode{{Name: "basic", Basic: &Basic{}}},
			ID:          []string{"json:meta.id"}, Type: []string{"json:meta.action+json:meta.entity"},
			NeverID: []string{"json:meta.attempt"},
			// The number of the attempt is in the body, so that a second attempt is
			// delivered as well; version 1 has the ID of the object in the same place.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 10 * minute, Window: day, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "plaid", Title: "Plaid",
			Docs:        "https://plaid.com/docs/api/webhooks/webhook-verification/",
			Unconfirmed: []string{"the claims iat and request_body_sha256", "how long Plaid retries", "how long it waits for an answer"},
			// Keys come from an address that needs the credentials of the API: the operator
			// configures what it answers, one public key per key or a set.
			Modes: []Mode{{Name: "jwt", JWT: &JWT{In: "header:Plaid-Verification", Algorithms: []string{"ES256"},
				Claims: map[string]string{"iat": "*"}, BodyHash: "request_body_sha256", MaxAge: defaultTolerance}}},
			Type:    []string{"json:webhook_type+json:webhook_code"},
			NeverID: []string{"json:item_id"},
			// There is no ID, and an item has the same thing happen to it many times in
			// the same bytes; retries over a day are taken for the same event.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Retries: day, Window: 30 * hour, Patience: 10 * second,
			SignatureHeaders: []string{"Plaid-Verification"},
		},
		{
			Name: "polar", Title: "Polar",
			Docs:        "https://polar.sh/docs/integrate/webhooks/delivery",
			Unconfirmed: []string{"how long Polar retries"},
			// The secret is used as the text it is and not decoded.
			Modes: []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1")}}},
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 3 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "postmark", Title: "Postmark",
			Docs:        "https://postmarkapp.com/developer/webhooks/webhooks-overview",
			Unconfirmed: []string{"which parts name an event for ever", "how long Postmark retries what is not inbound"},
			// The credentials are part of the configured URL.
			Modes: []Mode{{Name: "basic", Basic: &Basic{}}},
			ID: []string{"json:MessageID+json:RecordType+json:ID", "json:MessageID+json:RecordType+json:ReceivedAt",
				"json:MessageID+json:RecordType+json:ChangedAt", "json:MessageID+json:RecordType+json:DeliveredAt"},
			Type:    []string{"json:RecordType"},
			NeverID: []string{"json:MessageID"}, // the message, through all that happens to it
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 12 * hour, Window: 2 * day, Patience: 10 * second,
			BodyLimit:         64 << 20, // inbound mail with its attachments
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "primer", Title: "Primer",
			Docs:        "https://primer.io/docs/api-reference/get-started/configure-webhooks",
			Unconfirmed: []string{"that the digest is SHA-256", "how long Primer retries"},
			// The second header is there for a day after a secret was rotated.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Signature-Primary", More: []Place{{In: "header:X-Signature-Secondary"}}, Encoding: Base64, Signed: "{body}",
			}}}},
			Type: []string{"json:eventType"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Signature-Primary", "X-Signature-Secondary"},
		},
		{
			Name: "prismic", Title: "Prismic",
			Docs: "https://prismic.io/docs/webhooks",
			// A header of one's own (option token_header) keeps the secret out of the body.
			Modes:   []Mode{{Name: "token", Token: &Token{In: "json:secret"}}},
			Type:    []string{"json:type"},
			NeverID: []string{"json:masterRef"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Retries: hour, Window: 2 * day, Patience: 10 * second,
			Options: []string{"token_header"},
		},
		{
			Name: "pusher", Title: "Pusher Channels",
			Docs: "https://pusher.com/docs/channels/server_api/webhooks/",
			// The key names the secret: another one is refused whatever the signature.
			Modes: []Mode{{Name: "signature", Require: []string{"header:X-Pusher-Key=$key"}, HMAC: &HMAC{
				Scheme: Scheme{Sig: "header:X-Pusher-Signature", Signed: "{body}"},
			}}},
			ID: []string{"body:time_ms+json:name+json:channel+json:user_id", "body:time_ms+json:name+json:channel"}, Type: []string{"json:name"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 5 * minute, Window: day, Patience: 4 * second,
			Batch:            &Batch{Path: "events", Optional: true},
			EventHeaders:     []string{"X-Pusher-Key"},
			SignatureHeaders: []string{"X-Pusher-Signature"},
			Options:          []string{"key"},
		},
	}
}
