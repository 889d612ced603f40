package verify

// snsHosts are where Amazon SNS keeps certificates and takes confirmations.
func snsHosts() []string {
	return []string{"sns.*.amazonaws.com", "sns.*.amazonaws.com.cn"}
}

// hook0Modes are those of Hook0, whose older signature covers no header.
func hook0Modes() []Mode {
	sig := Scheme{Sig: "header:X-Hook0-Signature", Format: FormatKV, Timestamp: "sig:t", Tolerance: defaultTolerance}
	v1, v0 := sig, sig
	v1.Key, v1.Signed = "v1", "{timestamp}.{sig:h}.{listed:sig:h}.{body}"
	v0.Key, v0.Signed = "v0", "{timestamp}.{body}"
	return []Mode{{Name: "v1", HMAC: &HMAC{Scheme: v1}}, {Name: "v0", HMAC: &HMAC{Scheme: v0}}}
}

// httpSignature describes an HTTP signature: which of these parts are signed, and
// what else, the request says itself.
func httpSignature(in, prefix string) Scheme {
	return Scheme{Sig: in, Prefix: prefix, PrefixOptional: true, Encoding: Base64, Signed: "{path}{header:Date}{header:Digest}{body}"}
}

// rowsCustom are the rows with a function of their own and those whose scheme
// comes nearest to needing one; the files by letter leave them out: adyen, alexa,
// aws_sns, braintree, coinbase_cdp, connectwise_psa, contentful, ebay, hook0,
// jira_connect, keygen, lark, mercado_pago, messagebird, paddle_classic, paypal,
// plivo, smartthings, unisender_go, vonage_sms, wechat_official, wechat_safe.
func rowsCustom() []Row {
	return append(rowsCustomAToK(), rowsCustomLToZ()...)
}

func rowsCustomAToK() []Row {
	return []Row{
		{
			Name: "adyen", Title: "Adyen (standard webhooks)",
			Docs: "https://docs.adyen.com/development-resources/webhooks/",
			Modes: []Mode{{Name: "signature", Custom: customAdyen, HMAC: &HMAC{Secret: SecretHex, Scheme: Scheme{
				Sig: "json:notificationItems.0.NotificationRequestItem.additionalData.hmacSignature", Encoding: Base64,
				Signed: "{json:notificationItems}",
			}}}},
			// A later attempt may differ in success, so that the reference and the code
			// alone would lose it.
			ID:      []string{"json:NotificationRequestItem.pspReference+json:NotificationRequestItem.eventCode+json:NotificationRequestItem.success"},
			Type:    []string{"json:NotificationRequestItem.eventCode"},
			NeverID: []string{"json:NotificationRequestItem.merchantReference"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodyStable: true,
			Retries: 30 * day, Window: 31 * day, Patience: 10 * second,
			Batch:  &Batch{Path: "notificationItems"},
			Answer: Answer{Status: 200, ContentType: "text/plain", Body: Text("[accepted]")},
		},
		{
			Name: "alexa", Title: "Amazon Alexa skills",
			Docs: "https://developer.amazon.com/en-US/docs/alexa/custom-skills/host-a-custom-skill-as-a-web-service.html",
			// The older header Signature holds SHA-1 and is not looked at.
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: RSASHA256,
				Scheme: Scheme{Sig: "header:Signature-256", Encoding: Base64, Signed: "{body}",
					Timestamp: "json:request.timestamp", Unit: RFC3339, Tolerance: 150 * second},
				Keys: &KeySource{Kind: "x509", In: "header:SignatureCertChainUrl", Hosts: []string{"s3.amazonaws.com"},
					Path: "/echo.api/*", Name: "echo-api.amazon.com", Chain: true},
			}}},
			ID: []string{"json:request.requestId"}, Type: []string{"json:request.type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: day, Patience: 8 * second,
			SignatureHeaders: []string{"Signature-256", "SignatureCertChainUrl"},
		},
		{
			Name: "aws_sns", Title: "Amazon SNS",
			Docs:        "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
			Unconfirmed: []string{"which answers SNS takes for a failure for good"},
			Modes: []Mode{{Name: "signature", Custom: customSNS, PublicKey: &PublicKey{Algorithm: RSASHA256,
				Scheme: Scheme{Sig: "json:Signature", Encoding: Base64, Signed: "{json:MessageId}{json:Message}{json:TopicArn}{json:Timestamp}{json:Type}",
					Timestamp: "json:Timestamp", Unit: RFC3339},
				Keys: &KeySource{Kind: "x509", In: "json:SigningCertURL", Hosts: snsHosts(), Path: "*.pem"},
			}}},
			ID: []string{"json:MessageId"}, Type: []string{"header:X-Amz-Sns-Message-Type", "json:Type"},
			NoID: NoIDRefuse, OnConflict: OnConflictAck, IDSigned: true, BodyStable: true,
			Retries: hour, Window: day, Patience: 15 * second,
			Handshake: []Handshake{{
				Name: "subscription", Method: "POST", Detect: []string{"json:Type=SubscriptionConfirmation"}, Verify: true,
				Confirm: "json:SubscribeURL", ConfirmHosts: snsHosts(),
			}},
			EventHeaders: []string{"X-Amz-Sns-Message-Type", "X-Amz-Sns-Message-Id", "X-Amz-Sns-Topic-Arn", "X-Amz-Sns-Subscription-Arn"},
			Options:      []string{optionTopicARN},
		},
		{
			Name: "braintree", Title: "Braintree",
			Docs:        "https://developer.paypal.com/braintree/docs/guides/webhooks/overview",
			Unconfirmed: []string{"how long Braintree retries", "how long it waits for an answer"},
			Modes: []Mode{{Name: "signature", Custom: customBraintree, HMAC: &HMAC{Digest: SHA1, Secret: SecretSHA1,
				Scheme: Scheme{Sig: "form:bt_signature", Signed: "{form:bt_payload}"}}}},
			Methods: []string{"POST", "GET"},
			// There is no event ID: the payload has a kind, a time and a subject.
			Type: []string{"form:bt_payload|base64|xml:kind"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Retries: day, Window: 3 * day, Patience: 30 * second,
			Handshake: []Handshake{{
				// Signs 20 to 32 hex digits for anyone: that is the protocol, and no
				// payload of that shape is ever taken for an event.
				Name: "challenge", Method: "GET", Detect: []string{"query:bt_challenge"}, Open: true, SignsOutsider: true, Custom: customBraintree,
			}},
			Options: []string{optionPublicID},
		},
		{
			Name: "coinbase_cdp", Title: "Coinbase Developer Platform",
			Docs:        "https://docs.cdp.coinbase.com/webhooks/verify-signatures",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Coinbase retries"},
			Modes:       hook0Modes(),
			// Which headers are signed is listed in the signature: the ID usually is.
			ID: []string{"header:X-Event-Id"}, Type: []string{"header:X-Event-Type"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 8 * day, Window: 9 * day, Patience: 15 * second,
			EventHeaders: []string{"X-Event-Id", "X-Event-Type", "X-Delivery-Id"},
		},
		{
			Name: "connectwise_psa", Title: "ConnectWise PSA",
			Docs:        "https://developer.connectwise.com/Products/ConnectWise_PSA/Developer_Guide",
			Unconfirmed: []string{"whether MessageId names an event for ever", "how long ConnectWise retries"},
			Modes: []Mode{{Name: "signature", Custom: customConnectWise, HMAC: &HMAC{Secret: SecretSHA256, Scheme: Scheme{
				Sig: "header:X-Content-Signature", Encoding: Base64, Signed: "{body}"}}}},
			ID: []string{"json:MessageId"}, Type: []string{"json:Type+json:Action"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
		},
		{
			Name: "contentful", Title: "Contentful",
			Docs:        "https://www.contentful.com/developers/docs/webhooks/request-verification/",
			Unconfirmed: []string{"how long Contentful retries", "how long it waits for an answer"},
			Modes: []Mode{{Name: "signature", Custom: customContentful, HMAC: &HMAC{Scheme: Scheme{
				Sig: "header:X-Contentful-Signature", Signed: "{method}\n{path}\n{header:X-Contentful-Signed-Headers}{timestamp}\n{body}",
				Timestamp: "header:X-Contentful-Timestamp", Unit: Milliseconds, Tolerance: 30 * second}}}},
			ID:   []string{"header:X-Contentful-Idempotency-Key", "json:sys.id+json:sys.revision+header:X-Contentful-Topic"},
			Type: []string{"header:X-Contentful-Topic"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 5 * minute, Window: day, Patience: 30 * second,
			EventHeaders:     []string{"X-Contentful-Topic", "X-Contentful-Webhook-Name", "X-Contentful-Idempotency-Key"},
			SignatureHeaders: []string{"X-Contentful-Signature", "X-Contentful-Signed-Headers", "X-Contentful-Timestamp"},
		},
		{
			Name: "ebay", Title: "eBay",
			Docs:        "https://developer.ebay.com/develop/guides-v2/marketplace-user-account-deletion",
			Unconfirmed: []string{"whether notificationId names an event for ever", "how long eBay retries"},
			// Keys are handed out by an API that wants a token of the application; the
			// operator configures them.
			Modes: []Mode{{Name: "signature", PublicKey: &PublicKey{Algorithm: ECDSASHA1, Scheme: Scheme{
				Sig: "header:X-EBAY-SIGNATURE|base64|json:signature", Encoding: Base64, Signed: "{body}"}}}},
			Methods: []string{"POST", "GET"},
			ID:      []string{"json:notification.notificationId"}, Type: []string{"json:metadata.topic"},
			NeverID: []string{"json:notification.publishAttemptCount"},
			// The count of attempts is in the body.
			NoID: NoIDDeliver, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true,
			Window: unknownWindow, Patience: 10 * second,
			Handshake: []Handshake{{
				Name: "challenge", Method: "GET", Detect: []string{"query:challenge_code"}, Open: true, SignsOutsider: true,
				JSON: map[string]string{"challengeResponse": "{sha256:query:challenge_code+option:verification_token+url:}"},
			}},
			Options: []string{"verification_token"},
		},
		{
			Name: "hook0", Title: "Hook0",
			Docs:  "https://documentation.hook0.com/",
			Modes: hook0Modes(),
			ID:    []string{"header:X-Event-Id"}, Type: []string{"header:X-Event-Type"},
			NeverID: []string{"header:X-Delivery-Id"},
			NoID:    NoIDBodyHash, OnConflict: OnConflictAck, BodySigned: true, BodyStable: true, Guard: GuardFlag,
			Retries: 8 * day, Window: 9 * day, Patience: 15 * second,
			EventHeaders: []string{"X-Event-Id", "X-Event-Type", "X-Delivery-Id"},
		},
		{
			Name: "jira_connect", Title: "Jira (Connect apps)",
			Docs:        "https://developer.atlassian.com/cloud/jira/platform/understanding-jwt-for-connect-apps/",
			Unconfirmed: []string{"whether the ID stays the same over retries", "how long Jira retries"},
			// The token binds method, path and query and leaves out the body. The hash
			// `context-qsh` of frames is none of a request and never equals one.
			Modes: []Mode{{Name: "jwt", JWT: &JWT{In: "header:Authorization", Prefix: "JWT ", Algorithms: []string{"HS256"},
				Claims: map[string]string{"iss": "*", "exp": "*"}, QueryHash: "qsh", Leeway: 30 * second}}},
			ID: []string{"header:X-Atlassian-Webhook-Identifier"}, Type: []string{"json:webhookEvent"},
			NoID: NoIDBodyHash, OnConflict: OnConflictDeliver, BodyStable: true,
			Window: unknownWindow, Patience: 10 * second,
			EventHeaders:      []string{"X-Atlassian-Webhook-Identifier", "X-Atlassian-Webhook-Retry", "X-Atlassian-Webhook-Flow"},
			CredentialHeaders: []string{"Authorization"},
		},
		{
			Name: "keygen", Title: "Keygen",
			Docs: "https://keygen.sh/docs/api/webhooks/",
			Modes: []Mode{{Name: "ed25519", Custom: customHTTPSignature, PublicKey: &PublicKey{Algorithm: Ed25519,
				Scheme: httpSignature("header:Keygen-Signature", "")}}},
			ID: []string{"json:data.id"}, Type: []string{"json:data.attributes.event"},
			NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
			Retries: 3 * day, Window: 4 * day, Patience: 10 * second,
			SignatureHeaders: []string{"Keygen-Signature", "Digest", "Date"},
		},
	}
}
