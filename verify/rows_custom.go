package verify

// rowsCustom are the rows with a function of their own and those whose scheme
// comes nearest to needing one; the files by letter leave them out: adyen, alexa,
// aws_sns, braintree, coinbase_cdp, connectwise_psa, contentful, ebay, hook0,
// jira_connect, keygen, lark, mercado_pago, messagebird, paddle_classic, paypal,
// plivo, smartthings, unisender_go, vonage_sms, wechat_official, wechat_safe.
func rowsCustom() []Row {
	return nil
}
