package verify

// rowsGToI is the second half of rowsDToI.
func rowsGToI() []Row {
	return []Row{
		{
			Name: "gemini", Title: "Google Gemini API (static secrets)",
			Docs:        "https://ai.google.dev/gemini-api/docs/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Gemini retries"},
			Modes:       swOf("Webhook", SecretWhsec),
			ID:          []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "getstream", Title: "Stream",
			Docs: "https://getstream.io/chat/docs/node/webhooks-overview/",
			// Of a compressed body, what is inside is signed: compression stays off.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Signature", Signed: "{body}",
			}}}},
			ID: []string{"header:X-Webhook-Id"}, Type: []string{"json:type"},
			NeverID: []string{"header:X-Webhook-Attempt"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, Guard: GuardFlag,
			Retries: minute, Window: day, Patience: 6 * second,
			EventHeaders:     []string{"X-Webhook-Id", "X-Webhook-Attempt"},
			SignatureHeaders: []string{"X-Signature"},
		},
		{
			Name: "gitea", Title: "Gitea",
			Docs:        "https://docs.gitea.com/usage/webhooks",
			Unconfirmed: []string{"whether an event sent again by hand keeps its ID"},
			// Of a form, the payload is signed and not the form.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Gitea-Signature", Signed: "{form:payload ?? body}",
			}}}},
			ID: []string{"header:X-Gitea-Delivery"}, Type: []string{"header:X-Gitea-Event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 3 * day, Window: 4 * day, Patience: 5 * second,
			EventHeaders:     []string{"X-Gitea-Delivery", "X-Gitea-Event", "X-Gitea-Event-Type"},
			SignatureHeaders: []string{"X-Gitea-Signature", "X-Hub-Signature", "X-Hub-Signature-256"},
		},
		{
			Name: "gocardless", Title: "GoCardless",
			Docs: "https://developer.gocardless.com/api-reference/#appendix-webhooks",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Webhook-Signature", Signed: "{body}",
			}}}},
			// An event may come again among others: the request's ID says nothing.
			ID: []string{"json:id"}, Type: []string{"json:resource_type+json:action"},
			NeverID: []string{"body:meta.webhook_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 2 * day, Window: 4 * day, Patience: 10 * second,
			Batch:            &Batch{Path: "events"},
			SignatureHeaders: []string{"Webhook-Signature"},
		},
		{
			Name: "gogs", Title: "Gogs",
			Docs:        "https://gogs.io/docs/features/webhook",
			Unconfirmed: []string{"whether Gogs retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Gogs-Signature", Signed: "{body}",
			}}}},
			ID: []string{"header:X-Gogs-Delivery"}, Type: []string{"header:X-Gogs-Event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 3 * day, Window: 4 * day, Patience: 5 * second,
			EventHeaders:     []string{"X-Gogs-Delivery", "X-Gogs-Event"},
			SignatureHeaders: []string{"X-Gogs-Signature"},
		},
		{
			Name: "gohighlevel", Title: "HighLevel (GoHighLevel)",
			Docs:        "https://marketplace.gohighlevel.com/docs/webhook/WebhookIntegrationGuide/",
			Unconfirmed: []string{"whether webhookId names an event for ever"},
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: RSASHA256, Scheme: Scheme{
				Sig: "header:X-WH-Signature", Encoding: Base64, Signed: "{body}",
			}}}},
			ID: []string{"json:webhookId"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-WH-Signature", "X-GHL-Signature"},
		},
		{
			Name: "gong", Title: "Gong",
			Docs: "https://help.gong.io/docs/create-a-webhook-rule",
			Modes: []Mode{{Name: "jwt", JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", PrefixOptional: true, Algorithms: []string{"RS256"},
				Claims: map[string]string{"webhook_url": "@url"}, BodyHash: "body_sha256", Leeway: minute}}},
			// The ID is that of the call: rules may send one call several times.
			ID:   []string{"json:callData.metaData.id"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			BodyLimit:         10 << 20,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "google_chat", Title: "Google Chat apps",
			Docs:        "https://developers.google.com/workspace/chat/verify-requests-from-chat",
			Unconfirmed: []string{"which parts name an event for ever", "which answers Google Chat wants", "whether it retries"},
			// The token vouches for the sender and for nothing of the request.
			Modes: []Mode{
				{Name: "project", JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"RS256"},
					Keys:   &KeySource{Kind: "jwks", URL: "https://www.googleapis.com/service_accounts/v1/jwk/chat@system.gserviceaccount.com"},
					Claims: map[string]string{"iss": "chat@system.gserviceaccount.com", "aud": "$audience", "exp": "*"}, Leeway: minute}},
				{Name: "url", JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"RS256"},
					Keys: &KeySource{Kind: "jwks", URL: "https://www.googleapis.com/oauth2/v3/certs"},
					Claims: map[string]string{"iss": "https://accounts.google.com", "aud": "$audience", "exp": "*",
						"email": "chat@system.gserviceaccount.com", "email_verified": "true"}, Leeway: minute}},
			},
			ID: []string{"json:eventTime+json:space.name+json:type"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: day, Patience: 30 * second,
			Answer:            Answer{Status: 200, ContentType: "application/json", Body: Text("{}")},
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"audience"},
		},
		{
			Name: "google_pubsub", Title: "Google Cloud Pub/Sub push",
			Docs:        "https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
			Unconfirmed: []string{"which answers Pub/Sub takes for done"},
			// Any Google account can get a token for any audience: email is what tells.
			// The token vouches for nothing of the request.
			Modes: []Mode{{Name: "oidc", JWT: &JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"RS256"},
				Keys: &KeySource{Kind: "jwks", URL: "https://www.googleapis.com/oauth2/v3/certs"},
				Claims: map[string]string{"iss": "https://accounts.google.com", "aud": "$audience", "exp": "*",
					"email": "$email", "email_verified": "true"}, Leeway: minute}}},
			// Messages without an envelope have it in a header.
			ID: []string{"json:message.messageId", "header:X-Goog-Pubsub-Message-Id"}, Type: []string{"json:message.attributes.eventType"},
			NeverID: []string{"json:deliveryAttempt"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck,
			Retries: 7 * day, Window: 9 * day, Patience: 10 * second,
			BodyLimit:         14 << 20, // ten million bytes in base64
			EventHeaders:      []string{"X-Goog-Pubsub-Message-Id", "X-Goog-Pubsub-Publish-Time", "X-Goog-Pubsub-Subscription-Name"},
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"audience", "email"},
		},
		{
			Name: "google_push", Title: "Google API push channels",
			Docs:        "https://developers.google.com/workspace/calendar/api/guides/push",
			Unconfirmed: []string{"which answers Google takes for done"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "header:X-Goog-Channel-Token"}}},
			ID:          []string{"header:X-Goog-Channel-ID+header:X-Goog-Message-Number"}, Type: []string{"header:X-Goog-Resource-State"},
			NeverID: []string{"header:X-Goog-Message-Number", "header:X-Goog-Resource-ID"},
			// The body is empty.
			NoID: NoIDDeliver, OnConflict: OnConflictAck, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake: []Handshake{{Name: "sync", Method: "POST", Detect: []string{"header:X-Goog-Resource-State=sync"}, Verify: true}},
			EventHeaders: []string{"X-Goog-Channel-ID", "X-Goog-Channel-Expiration", "X-Goog-Message-Number", "X-Goog-Resource-ID",
				"X-Goog-Resource-State", "X-Goog-Resource-URI", "X-Goog-Changed"},
			CredentialHeaders: []string{"X-Goog-Channel-Token"},
		},
		{
			Name: "grafana", Title: "Grafana Alerting",
			Docs:        "https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/",
			Unconfirmed: []string{"how long Grafana retries"},
			Modes: []Mode{
				{Name: "signature", HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Grafana-Alerting-Signature", Signed: "{body}"}}},
				{Name: "basic", Basic: &Basic{}},
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
			},
			// A reminder says the same again and means it.
			Type:    []string{"json:status"},
			NeverID: []string{"json:groupKey"},
			NoID:    NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders:  []string{"X-Grafana-Alerting-Signature"},
			CredentialHeaders: []string{"Authorization"},
			Options:           []string{"header", "timestamp_header"},
			// Where a header for the time is configured, the time is signed.
			OptionSets: map[string][]string{"timestamp_header": {"timestamp=header:{}", "template={timestamp}:{body}"}},
		},
		{
			Name: "granola", Title: "Granola",
			Docs:  "https://docs.granola.ai/",
			Modes: swOf("Webhook", SecretWhsec),
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "greenhouse", Title: "Greenhouse Recruiting",
			Docs:        "https://developers.greenhouse.io/webhooks.html",
			Unconfirmed: []string{"how long Greenhouse retries"},
			// A blank follows the digest's name.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Signature", Prefix: "sha256 ", Signed: "{body}",
			}}}},
			ID: []string{"header:Greenhouse-Event-ID"}, Type: []string{"json:action"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, Guard: GuardFlag,
			Retries: 15 * hour, Window: 2 * day, Patience: 10 * second,
			EventHeaders:     []string{"Greenhouse-Event-ID"},
			SignatureHeaders: []string{"Signature"},
		},
		{
			Name: "helpscout", Title: "Help Scout",
			Docs:        "https://developer.helpscout.com/webhooks/",
			Unconfirmed: []string{"which parts name an event for ever"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{
				Sig: "header:X-HelpScout-Signature", Encoding: Base64, Signed: "{body}",
			}}}},
			// The ID in the body is the conversation's.
			Type:    []string{"header:X-HelpScout-Event"},
			NeverID: []string{"json:id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:     []string{"X-HelpScout-Event"},
			SignatureHeaders: []string{"X-HelpScout-Signature"},
		},
		{
			Name: "heroku", Title: "Heroku app webhooks",
			Docs:        "https://devcenter.heroku.com/articles/app-webhooks",
			Unconfirmed: []string{"how the signature is encoded", "where the event's ID is"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:Heroku-Webhook-Hmac-SHA256", Encoding: Base64, Signed: "{body}",
			}}}},
			ID: []string{"json:webhook_metadata.event.id"}, Type: []string{"json:webhook_metadata.event.include"},
			NeverID: []string{"json:webhook_metadata.delivery.id", "json:webhook_metadata.attempt.id"},
			// The ID of the attempt is in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			SignatureHeaders:  []string{"Heroku-Webhook-Hmac-SHA256"},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "huggingface", Title: "Hugging Face Hub",
			Docs:        "https://huggingface.co/docs/hub/webhooks",
			Unconfirmed: []string{"how long Hugging Face retries"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "header:X-Webhook-Secret"}}},
			Type:        []string{"json:event.scope+json:event.action"},
			NoID:        NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: day, Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"X-Webhook-Secret"},
		},
		{
			Name: "incident_io", Title: "incident.io",
			Docs:  "https://docs.incident.io/api-reference/webhooks",
			Modes: swOf("Webhook", SecretWhsec),
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "increase", Title: "Increase",
			Docs:        "https://increase.com/documentation/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Increase retries"},
			Modes:       swOf("Webhook", SecretWhsec),
			// The type at the top is always `event`.
			ID: []string{"header:Webhook-Id"}, Type: []string{"json:category"},
			NeverID: []string{"json:associated_object_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "intercom", Title: "Intercom",
			Docs:        "https://developers.intercom.com/docs/webhooks/setting-up-webhooks",
			Unconfirmed: []string{"how long Intercom retries", "which answers it wants"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{
				Sig: "header:X-Hub-Signature", Prefix: "sha1=", Signed: "{body}",
			}}}},
			Methods: []string{"POST", "HEAD"},
			ID:      []string{"json:id"}, Type: []string{"json:topic"},
			NeverID: []string{"json:data.item.id", "json:delivery_attempts"},
			// The count of attempts and their times are in the body.
			NoID: NoIDDeliver, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: 10 * minute, Window: day, Patience: 5 * second,
			Handshake: []Handshake{
				{Name: "address", Method: "HEAD", Open: true},
				{Name: "ping", Method: "POST", Detect: []string{"json:topic=ping"}, Verify: true},
			},
			SignatureHeaders: []string{"X-Hub-Signature"},
		},
		{
			Name: "intuit", Title: "Intuit QuickBooks Online",
			Docs:        "https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks/best-practices",
			Unconfirmed: []string{"when Intuit stops retrying"}, // every six hours, says its page
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:intuit-signature", Encoding: Base64, Signed: "{body}",
			}}}},
			// The newer form is an array of CloudEvents.
			ID:      []string{"parent:realmId+json:name+json:id+json:operation+json:lastUpdated", "json:source+json:id"},
			Type:    []string{"json:name+json:operation", "json:type"},
			NeverID: []string{"json:id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Retries: 7 * day, Window: 14 * day, Patience: 3 * second,
			Batch:            &Batch{Path: "eventNotifications[].dataChangeEvent.entities", Also: []string{""}},
			SignatureHeaders: []string{"intuit-signature"},
		},
		{
			Name: "iterable", Title: "Iterable system webhooks",
			Docs:        "https://support.iterable.com/hc/en-us/articles/208013936-System-Webhooks",
			Unconfirmed: []string{"how Iterable authenticates", "which parts name an event for ever", "how long Iterable retries"},
			Modes: []Mode{
				{Name: "basic", Basic: &Basic{}},
				{Name: "token", Token: &Token{In: "header:X-Webhook-Token"}},
			},
			ID: []string{"json:messageId+json:eventName"}, Type: []string{"json:eventName"},
			// A message may be clicked twice: then the body is another.
			NeverID: []string{"json:messageId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization", "X-Webhook-Token"},
			Options:           []string{"token_header"},
		},
	}
}
