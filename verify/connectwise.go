package verify

// customConnectWise names the verification below in a row.
const customConnectWise = "connectwise_psa"

// connectWiseAuth verifies ConnectWise's callbacks. The HMAC family computes the
// signature; it doesn't fit alone, because the body names an address where the key
// is to be had. Anyone with an account has such an address, so that the key is
// configured and the address only has to be one of the provider's.
type connectWiseAuth struct{ *hmacAuth }

func compileConnectWise(m *Mode, p parts) (authenticator, []key, error) {
	a, err := describedHMAC(m, p)
	return connectWiseAuth{a}, a.keys, err
}

func (a connectWiseAuth) verify(x *exchange) Result {
	at := mustSource("json:Metadata.key_url")
	s, _, p := at.find(x)
	if _, ok := (urlRule{hosts: []string{"*.myconnectwise.net"}}).check(s); p == many || p == once && !ok {
		return refuse(ReasonSignatureMismatch, "the address of the key is not one of the provider's")
	}
	return a.hmacAuth.verify(x)
}
