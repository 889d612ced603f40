package verify

// swOf are the modes of a sender that keeps to Standard Webhooks under the given
// prefix of its headers.
func swOf(prefix string, form SecretForm) []Mode {
	return []Mode{{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks(prefix, "v1"), Secret: form}}}
}

// rowsDToI are the rows whose names begin with d to i.
func rowsDToI() []Row {
	return append(rowsDToF(), rowsGToI()...)
}

func rowsDToF() []Row {
	return []Row{
		{
			Name: "daily", Title: "Daily.co",
			Docs:        "https://docs.daily.co/reference/rest-api/webhooks",
			Unconfirmed: []string{"what the request on creation looks like", "how long Daily retries"},
			// Sources differ on the unit of the time.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretBase64, Scheme: Scheme{
				Sig: "header:X-Webhook-Signature", Encoding: Base64, Signed: "{timestamp}.{body}",
				Timestamp: "header:X-Webhook-Timestamp", Unit: SecondsOrMillis, Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "test", Method: "POST", Detect: []string{"json:test=test", "!json:id", "!json:type"}, Open: true,
			}},
			SignatureHeaders: []string{"X-Webhook-Signature", "X-Webhook-Timestamp"},
		},
		{
			Name: "datadog", Title: "Datadog monitors",
			Docs: "https://docs.datadoghq.com/integrations/webhooks/",
			// The operator writes header and body; ID and type are those of the body that
			// Datadog proposes. Form encoding is another choice of theirs.
			Modes: []Mode{{Name: "token", Token: &Token{In: "header:X-Webhook-Token"}}},
			ID:    []string{"json:id"}, Type: []string{"json:event_type"},
			NeverID: []string{"json:alert_cycle_key", "json:aggreg_key"},
			NoID:    NoIDDeliver, OnConflict: OnConflictDeliver, AnyBody: true,
			Retries: hour, Window: day, Patience: 15 * second,
			CredentialHeaders: []string{"X-Webhook-Token"},
			Options:           []string{"token_header", "id", "type"},
		},
		{
			Name: "deepgram", Title: "Deepgram callbacks",
			Docs: "https://developers.deepgram.com/docs/callback",
			Modes: []Mode{
				// User and password stand in the URL that is handed to Deepgram.
				{Name: "basic", Basic: &Basic{}},
				// The ID of the API key, which is no secret.
				{Name: "token", Token: &Token{In: "header:dg-token"}},
			},
			Methods: []string{"POST", "PUT"},
			ID:      []string{"json:metadata.request_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 10 * minute, Window: day, Patience: 10 * second,
			BodyLimit:         10 << 20,
			CredentialHeaders: []string{"Authorization", "dg-token"},
		},
		{
			Name: "dingtalk_robot", Title: "DingTalk outgoing robot",
			Docs:        "https://open.dingtalk.com/document/orgapp/receive-message",
			Unconfirmed: []string{"how the signature is made", "whether msgId names an event for ever", "whether DingTalk retries"},
			// Time and secret are signed, and nothing of the message.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:sign", Encoding: Base64, Signed: "{timestamp}\n{secret}",
				Timestamp: "header:timestamp", Unit: Milliseconds, Tolerance: hour,
			}}}},
			ID: []string{"json:msgId"}, Type: []string{"json:msgtype"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 5 * second,
			SignatureHeaders: []string{"sign", "timestamp"},
		},
		{
			Name: "discord_events", Title: "Discord webhook events",
			Docs: "https://docs.discord.com/developers/events/webhook-events",
			Modes: []Mode{{Name: "ed25519", PublicKey: &PublicKey{Algorithm: Ed25519, Scheme: Scheme{
				Sig: "header:X-Signature-Ed25519", Signed: "{timestamp}{body}",
				Timestamp: "header:X-Signature-Timestamp", Tolerance: defaultTolerance,
			}}}},
			// The envelope has no ID.
			Type: []string{"json:event.type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true,
			Retries: 10 * minute, Window: day, Patience: 3 * second,
			Handshake: []Handshake{{
				// PING is 0 here and 1 at interactions.
				Name: "ping", Method: "POST", Detect: []string{"json:type=0"}, Verify: true, Status: 204, ContentType: "application/json",
			}},
			Answer:           Answer{Status: 204, ContentType: "application/json"},
			SignatureHeaders: []string{"X-Signature-Ed25519", "X-Signature-Timestamp"},
		},
		{
			Name: "discord_interactions", Title: "Discord interactions endpoint",
			Docs: "https://docs.discord.com/developers/interactions/overview",
			Modes: []Mode{{Name: "ed25519", PublicKey: &PublicKey{Algorithm: Ed25519, Scheme: Scheme{
				Sig: "header:X-Signature-Ed25519", Signed: "{timestamp}{body}",
				Timestamp: "header:X-Signature-Timestamp", Tolerance: defaultTolerance,
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Window: day, Patience: 3 * second,
			Handshake: []Handshake{{
				Name: "ping", Method: "POST", Detect: []string{"json:type=1"}, Verify: true, ContentType: "application/json", Body: `{{"type":1}}`,
			}},
			// Says that the reply follows; a target makes it within 15 minutes.
			Answer:           Answer{Status: 200, ContentType: "application/json", Body: Text(`{"type":5}`)},
			SignatureHeaders: []string{"X-Signature-Ed25519", "X-Signature-Timestamp"},
		},
		{
			Name: "docker_hub", Title: "Docker Hub",
			Docs:        "https://docs.docker.com/docker-hub/repos/manage/webhooks/",
			Unconfirmed: []string{"which parts name an event for ever"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "query:token"}}},
			ID:          []string{"json:repository.repo_name+json:push_data.tag+json:push_data.pushed_at"},
			NeverID:     []string{"json:callback_url"},
			NoID:        NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
		},
		{
			Name: "docusign", Title: "DocuSign Connect",
			Docs:        "https://developers.docusign.com/platform/webhooks/connect/validate",
			Unconfirmed: []string{"how long DocuSign retries", "which answers it wants"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-DocuSign-Signature-#", Encoding: Base64, Signed: "{body}",
			}}}},
			// XML of older configurations has no ID.
			ID: []string{"json:data.envelopeId+json:event+json:generatedDateTime"}, Type: []string{"json:event"},
			NeverID: []string{"json:retryCount", "json:data.envelopeId"},
			// The count of retries is in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, AnyBody: true,
			Retries: 15 * day, Window: 19 * day, Patience: 100 * second,
			BodyLimit:        25 << 20, // documents come along where that is asked for
			EventHeaders:     []string{"X-Authorization-Digest"},
			SignatureHeaders: []string{"X-DocuSign-Signature-1", "X-DocuSign-Signature-2", "X-DocuSign-Signature-3"},
		},
		{
			Name: "doordash", Title: "DoorDash Drive and Marketplace",
			Docs:        "https://developer.doordash.com/en-US/docs/drive/reference/webhooks/",
			Unconfirmed: []string{"how DoorDash authenticates", "which parts name an event for ever", "how long DoorDash retries"},
			Modes: []Mode{
				{Name: "basic", Basic: &Basic{}},
				{Name: "bearer", Token: &Token{In: "header:Authorization", Prefix: "Bearer "}},
			},
			ID: []string{"json:external_delivery_id+json:event_name+json:created_at"}, Type: []string{"json:event_name"},
			NeverID: []string{"json:external_delivery_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "doppler", Title: "Doppler",
			Docs:        "https://docs.doppler.com/docs/webhooks",
			Unconfirmed: []string{"the signature's prefix"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Doppler-Signature", Prefix: "sha256=", PrefixOptional: true, Signed: "{body}",
			}}}},
			// There is no ID, and a payload of the operator's own may be the same twice.
			Type: []string{"json:type"},
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Doppler-Signature"},
		},
		{
			// The product is closed; sources that still have its callbacks keep working.
			Name: "drift", Title: "Drift (closed)",
			Docs:        "https://devdocs.drift.com/docs/webhook-events-1",
			Unconfirmed: []string{"that the verification token stands in the field token", "how long Drift retries", "whether the body stays the same over retries"},
			Modes:       []Mode{{Name: "token", Token: &Token{In: "json:token"}}},
			Type:        []string{"json:type"},
			NoID:        NoIDBodyHash, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
		},
		{
			Name: "dropbox", Title: "Dropbox",
			Docs:        "https://www.dropbox.com/developers/reference/webhooks",
			Unconfirmed: []string{"how long Dropbox retries", "which answers it wants"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Dropbox-Signature", Signed: "{body}",
			}}}},
			Methods: []string{"POST", "GET"},
			// Says whose files changed, in the same words each time.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Retries: 10 * minute, Window: day, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "challenge", Method: "GET", Detect: []string{"query:challenge"}, Open: true, ContentType: "text/plain", Body: "{query:challenge}",
			}},
			SignatureHeaders: []string{"X-Dropbox-Signature"},
		},
		{
			Name: "dropbox_sign", Title: "Dropbox Sign (HelloSign)",
			Docs: "https://developers.hellosign.com/docs/guides/events-and-callbacks/walkthrough",
			// Time and type are signed, and nothing of the document.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig:    "form:json|json:event.event_hash",
				Signed: "{form:json|json:event.event_time}{form:json|json:event.event_type}",
			}}}},
			// Two events of one type in one second have the same hash.
			ID: []string{
				"form:json|json:event.event_hash+form:json|json:signature_request.signature_request_id+form:json|json:event.event_metadata.related_signature_id",
				"form:json|json:event.event_hash+form:json|json:signature_request.signature_request_id",
				"form:json|json:event.event_hash+form:json|json:event.event_metadata.related_signature_id",
			},
			Type:    []string{"form:json|json:event.event_type"},
			NeverID: []string{"form:json|json:event.event_hash"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "callback_test", Method: "POST", Detect: []string{"form:json|json:event.event_type=callback_test"}, Verify: true,
				ContentType: "text/plain", Body: "Hello API Event Received",
			}},
			// Without this text the answer counts as a failure.
			Answer: Answer{Status: 200, ContentType: "text/plain", Body: Text("Hello API Event Received")},
		},
		{
			Name: "dwolla", Title: "Dwolla",
			Docs:        "https://developers.dwolla.com/docs/balance/webhooks/process-validate",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Request-Signature-SHA-256", Signed: "{body}",
			}}}},
			ID: []string{"json:id"}, Type: []string{"header:X-Dwolla-Topic", "json:topic"},
			NeverID: []string{"json:resourceId", "json:_links.webhook.href"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			EventHeaders:     []string{"X-Dwolla-Topic"},
			SignatureHeaders: []string{"X-Request-Signature-SHA-256"},
		},
		{
			Name: "easypost", Title: "EasyPost",
			Docs:        "https://docs.easypost.com/docs/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long EasyPost retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Secret: SecretNFKD, Scheme: Scheme{
				Sig: "header:X-Hmac-Signature", Prefix: "hmac-sha256-hex=", Signed: "{body}",
			}}}},
			ID: []string{"json:id"}, Type: []string{"json:description"},
			NeverID: []string{"json:result.id"},
			// The list of URLs that are still to be called is in the body.
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Retries: day, Window: 3 * day, Patience: 7 * second,
			SignatureHeaders: []string{"X-Hmac-Signature"},
		},
		{
			Name: "elevenlabs", Title: "ElevenLabs",
			Docs:        "https://elevenlabs.io/docs/eleven-api/resources/webhooks",
			Unconfirmed: []string{"which parts name an event for ever", "how long ElevenLabs retries"},
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:ElevenLabs-Signature", Format: FormatKV, Key: "v0", Signed: "{timestamp}.{body}",
				Timestamp: "sig:t", Tolerance: 30 * minute,
			}}}},
			ID: []string{"json:data.conversation_id+json:type"}, Type: []string{"json:type"},
			NeverID: []string{"json:data.conversation_id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: day, Window: 3 * day, Patience: 10 * second,
			BodyLimit:        25 << 20, // calls come as sound where that is asked for
			SignatureHeaders: []string{"ElevenLabs-Signature"},
		},
		{
			Name: "etsy", Title: "Etsy",
			Docs:  "https://developers.etsy.com/documentation/essentials/webhooks",
			Modes: swOf("Webhook", SecretWhsec),
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "fastly_logging", Title: "Fastly log streaming over HTTPS",
			Docs:        "https://www.fastly.com/documentation/guides/integrations/logging-endpoints/log-streaming-https",
			Unconfirmed: []string{"whether Fastly retries"},
			Modes: []Mode{
				// The header that the endpoint is configured to send.
				{Name: "header", Token: &Token{In: "header:X-Webhook-Token"}},
				{Name: "token", Token: &Token{In: "query:token"}},
			},
			Methods: []string{"POST", "PUT", "GET"},
			// Lines of a log have no ID and may be the same twice.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			BodyLimit: 25 << 20, // request_max_bytes has to be less: its default is 100 MB
			Handshake: []Handshake{{
				// Asked for at /.well-known/fastly/logging/challenge of the host; a line of
				// its own for each service.
				Name: "challenge", Method: "GET", Open: true, ContentType: "text/plain", Body: "{sha256:option:service_id}\n",
			}},
			CredentialHeaders: []string{"X-Webhook-Token"},
			Options:           []string{"service_id", "token_header"},
		},
		{
			Name: "fastspring", Title: "FastSpring",
			Docs: "https://developer.fastspring.com/reference/message-security",
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-FS-Signature", Encoding: Base64, Signed: "{body}",
			}}}},
			// Sent again by hand, an event has another ID.
			ID: []string{"json:id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			Batch:            &Batch{Path: "events"},
			SignatureHeaders: []string{"X-FS-Signature"},
		},
		{
			Name: "fathom", Title: "Fathom",
			Docs:  "https://developers.fathom.ai/webhooks",
			Modes: swOf("Webhook", SecretWhsec),
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "finch", Title: "Finch",
			Docs:        "https://developer.tryfinch.com/developer-resources/Webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Finch retries"},
			Modes:       swOf("Finch", SecretBase64),
			ID:          []string{"header:Finch-Event-Id"}, Type: []string{"json:event_type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 28 * hour, Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Finch-Event-Id", "Finch-Timestamp"},
			SignatureHeaders: []string{"Finch-Signature", "Finch-Timestamp"},
		},
		{
			Name: "fireblocks", Title: "Fireblocks",
			Docs:        "https://developers.fireblocks.com/reference/validating-webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries"},
			Modes: []Mode{
				// key_set is keys, eu-keys, eu2-keys or sandbox-keys.
				{Name: "jws", JWT: &JWT{In: "header:Fireblocks-Webhook-Signature", Algorithms: []string{"RS512"}, Detached: true,
					Keys: &KeySource{Kind: "jwks", URL: "https://{option:key_set}.fireblocks.io/.well-known/jwks.json", Hosts: []string{"*.fireblocks.io"}}}},
				{Name: "legacy", PublicKey: &PublicKey{Algorithm: RSASHA512, Scheme: Scheme{
					Sig: "header:Fireblocks-Signature", Encoding: Base64, Signed: "{body}",
				}}},
			},
			ID: []string{"json:id"}, Type: []string{"json:eventType", "json:type"},
			NeverID: []string{"json:data.id", "json:resourceId"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 8 * hour, Window: 3 * day, Patience: 10 * second,
			SignatureHeaders: []string{"Fireblocks-Webhook-Signature", "Fireblocks-Signature"},
			Options:          []string{"key_set"},
		},
		{
			Name: "fitbit", Title: "Fitbit subscriptions",
			Docs:        "https://dev.fitbit.com/build/reference/web-api/developer-guide/using-subscriptions/",
			Unconfirmed: []string{"whether Fitbit still sends (its API was to end in November 2026)", "how the signature is made", "what the verification wants", "how long Fitbit retries"},
			// The key is the client secret with an ampersand.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Digest: SHA1, Suffix: "&", Scheme: Scheme{
				Sig: "header:X-Fitbit-Signature", Encoding: Base64, Signed: "{body}",
			}}}},
			Methods: []string{"POST", "GET"},
			// Says what of whom changed, in the same words each time of a day.
			Type:    []string{"json:collectionType"},
			NeverID: []string{"json:collectionType+json:ownerId+json:date", "json:subscriptionId"},
			NoID:    NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 5 * second,
			Batch: &Batch{},
			Handshake: []Handshake{{
				// Comes with the right code and once more with a wrong one.
				Name: "verify", Method: "GET", Detect: []string{"query:verify"}, Compare: []string{"query:verify=verify_code"}, Status: 204, Fail: 404,
			}},
			Answer:           Answer{Status: 204},
			SignatureHeaders: []string{"X-Fitbit-Signature"},
			Options:          []string{"verify_code"},
		},
		{
			Name: "flutterwave", Title: "Flutterwave",
			Docs:        "https://developer.flutterwave.com/docs/webhooks",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Flutterwave retries"},
			Modes: []Mode{
				{Name: "hmac", HMAC: &HMAC{Scheme: Scheme{Sig: "header:Flutterwave-Signature", Encoding: Base64, Signed: "{body}"}}},
				// Version 3 sends the secret itself.
				{Name: "token", Token: &Token{In: "header:Verif-Hash"}, ID: []string{"json:data.id+json:event+json:data.status"}},
			},
			ID: []string{"json:webhook_id"}, Type: []string{"json:type", "json:event"},
			NeverID: []string{"json:data.id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 2 * hour, Window: 2 * day, Patience: 60 * second,
			SignatureHeaders:  []string{"Flutterwave-Signature"},
			CredentialHeaders: []string{"Verif-Hash"},
		},
		{
			Name: "folk", Title: "folk",
			Docs:  "https://developer.folk.app/",
			Modes: swOf("Webhook", SecretWhsec),
			ID:    []string{"header:Webhook-Id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: 7 * day, Patience: 15 * second,
			EventHeaders:     []string{"Webhook-Id", "Webhook-Timestamp"},
			SignatureHeaders: []string{"Webhook-Signature", "Webhook-Timestamp"},
		},
		{
			Name: "forgejo", Title: "Forgejo",
			Docs:        "https://forgejo.org/docs/latest/user/webhooks/",
			Unconfirmed: []string{"whether an event sent again by hand keeps its ID"},
			// Of a form, the payload is signed and not the form.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Forgejo-Signature", Signed: "{form:payload ?? body}",
			}}}},
			ID: []string{"header:X-Forgejo-Delivery"}, Type: []string{"header:X-Forgejo-Event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 3 * day, Window: 4 * day, Patience: 5 * second,
			EventHeaders:     []string{"X-Forgejo-Delivery", "X-Forgejo-Event", "X-Forgejo-Event-Type", "X-Gitea-Delivery", "X-Gitea-Event"},
			SignatureHeaders: []string{"X-Forgejo-Signature", "X-Gitea-Signature", "X-Hub-Signature", "X-Hub-Signature-256"},
		},
		{
			Name: "freshbooks", Title: "FreshBooks",
			Docs: "https://www.freshbooks.com/api/webhooks",
			// What is signed is the form as JSON, spaced as Python spaces it.
			Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-FreshBooks-Hmac-SHA256", Encoding: Base64, Signed: "{form_json}",
			}}}},
			// Says what changed, in the same words each time.
			Type:    []string{"form:name"},
			NeverID: []string{"form:object_id", "form:name+form:object_id+form:account_id"},
			NoID:    NoIDDeliver, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake: []Handshake{{
				// The operator sends the verifier back; from then on it is the secret.
				Name: "callback.verify", Method: "POST", Detect: []string{"form:name=callback.verify"},
				Pending: "registration_pending", Open: true, Capture: "form:verifier",
			}},
			SignatureHeaders: []string{"X-FreshBooks-Hmac-SHA256"},
			Options:          []string{"registration_pending"},
		},
		{
			Name: "freshchat", Title: "Freshchat",
			Docs: "https://developers.freshchat.com/api/",
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: RSASHA256, Scheme: Scheme{
				Sig: "header:X-Freshchat-Signature", Encoding: Base64, Signed: "{body}",
			}}}},
			Type: []string{"json:action"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			SignatureHeaders: []string{"X-Freshchat-Signature"},
		},
		{
			Name: "freshdesk", Title: "Freshdesk and Freshservice",
			Docs: "https://support.freshdesk.com/support/solutions/articles/132589-using-webhooks-in-automation-rules",
			Modes: []Mode{
				{Name: "basic", Basic: &Basic{}},
				{Name: "token", Token: &Token{In: "header:X-Webhook-Token"}},
			},
			Methods: []string{"POST", "PUT", "PATCH"},
			// The operator writes the body, which may be the same twice.
			NoID: NoIDDeliver, OnConflict: OnConflictDeliver,
			Window: unknownWindow, Patience: 10 * second,
			CredentialHeaders: []string{"Authorization", "X-Webhook-Token"},
			Options:           []string{"token_header", "id", "type"},
		},
		{
			Name: "front", Title: "Front",
			Docs:        "https://dev.frontapp.com/docs/application-webhooks",
			Unconfirmed: []string{"whether payload.id names an event for ever"},
			Modes: []Mode{
				{Name: "application", HMAC: &HMAC{Scheme: Scheme{
					Sig: "header:X-Front-Signature", Encoding: Base64, Signed: "{timestamp}:{body}",
					Timestamp: "header:X-Front-Request-Timestamp", Unit: Milliseconds, Tolerance: defaultTolerance,
				}}},
				// Webhooks of rules use the same header for another signature.
				{Name: "rule", ID: []string{"json:id"}, HMAC: &HMAC{Digest: SHA1, Scheme: Scheme{
					Sig: "header:X-Front-Signature", Encoding: Base64, Signed: "{body}",
				}}},
			},
			ID: []string{"json:payload.id"}, Type: []string{"json:type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 5 * second,
			Handshake: []Handshake{{
				// Comes whenever the address is saved.
				Name: "challenge", Method: "POST", Detect: []string{"header:X-Front-Challenge"}, Verify: true,
				ContentType: "text/plain", Body: "{header:X-Front-Challenge}",
			}},
			SignatureHeaders: []string{"X-Front-Signature", "X-Front-Request-Timestamp"},
		},
		{
			Name: "fusionauth", Title: "FusionAuth",
			Docs:        "https://fusionauth.io/docs/extend/events-and-webhooks/signing",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long FusionAuth retries"},
			// The kind of key decides which algorithms are taken, never the token.
			Modes: []Mode{
				{Name: "public_key", JWT: &JWT{In: "header:X-FusionAuth-Signature-JWT",
					Algorithms: []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"},
					BodyHash:   "request_body_sha256", HashEncoding: Base64, Leeway: minute}},
				{Name: "jwks", JWT: &JWT{In: "header:X-FusionAuth-Signature-JWT",
					Algorithms: []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"},
					Keys:       &KeySource{Kind: "jwks", URL: "https://{option:key_host}/.well-known/jwks.json"},
					BodyHash:   "request_body_sha256", HashEncoding: Base64, Leeway: minute}},
				{Name: "hmac", JWT: &JWT{In: "header:X-FusionAuth-Signature-JWT", Algorithms: []string{"HS256", "HS384", "HS512"},
					BodyHash: "request_body_sha256", HashEncoding: Base64, Leeway: minute}},
			},
			ID: []string{"json:event.id"}, Type: []string{"json:event.type"},
			// Events of a transaction wait for the answer.
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true, BodyStable: true,
			Window: unknownWindow, Patience: 2 * second,
			SignatureHeaders: []string{"X-FusionAuth-Signature-JWT"},
			Options:          []string{"key_host"},
		},
	}
}
