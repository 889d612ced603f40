package verify

import (
	"encoding/base64"
	"io"
	"strings"
)

// basicAuth compares user and password together, so that an unknown user costs
// the same time as a wrong password.
type basicAuth struct {
	unsigned
	keys []key
}

func (a *basicAuth) verify(x *exchange) Result {
	if !anyActive(a.keys, x.req.Now) {
		return refuse(ReasonNoSecret, "no secret is configured and valid at this time")
	}
	sent, p := single(x.req.Header["Authorization"])
	switch {
	case p == many:
		return refuse(ReasonSignatureMalformed, "the Authorization header was sent more than once")
	case sent == "":
		return refuse(ReasonSignatureMissing, "there is no Authorization header")
	}
	scheme, cred, ok := strings.Cut(sent, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") || len(cred) > maxSignatureLen {
		return refuse(ReasonSignatureMalformed, "the Authorization header is not of the Basic scheme")
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimLeft(cred, " "))
	if err != nil || !strings.Contains(string(pair), ":") {
		return refuse(ReasonSignatureMalformed, "the Basic credentials can't be decoded")
	}
	return matchHashed(x, a.keys, string(pair))
}

func (a *basicAuth) offline() bool { return len(a.keys) == 0 }

// noneAuth takes every request.
type noneAuth struct{ unsigned }

func (noneAuth) verify(*exchange) Result { return Result{Reason: OK} }

func (noneAuth) offline() bool { return false }

// unsigned is what families that sign nothing say about signed bytes.
type unsigned struct{}

func (unsigned) writeSigned(*exchange, io.Writer) bool { return false }
func (unsigned) covers(locator) bool                   { return false }
func (unsigned) coversBody() bool                      { return false }
