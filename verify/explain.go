package verify

import (
	"fmt"
	"strings"
	"time"
)

// Hints are what an explanation may know beside the request.
type Hints struct {
	// Others are the verifiers of other sources, whose secrets are tried.
	Others []Other
}

// Other is another source.
type Other struct {
	Source   string
	Verifier *Verifier
}

// CauseID names what is usually wrong when a request of the right sender is
// refused. The set is closed.
type CauseID string

// The causes.
const (
	CauseOtherSource    CauseID = "other_source_secret"
	CauseTestLive       CauseID = "test_or_live"
	CauseSecretSpace    CauseID = "secret_space"
	CauseSecretQuotes   CauseID = "secret_quotes"
	CauseSecretPrefix   CauseID = "secret_prefix"
	CauseSecretEncoding CauseID = "secret_encoding"
	CauseNewlineAdded   CauseID = "newline_added"
	CauseNewlineLost    CauseID = "newline_lost"
	CauseLineEnds       CauseID = "line_ends"
	CauseBOM            CauseID = "byte_order_mark"
	CauseGzip           CauseID = "compressed"
	CauseCharset        CauseID = "charset"
	CauseReserialised   CauseID = "body_reserialised"
	CauseDigest         CauseID = "other_digest"
	CauseEncoding       CauseID = "signature_encoding"
	CauseMilliseconds   CauseID = "time_unit"
	CauseClock          CauseID = "clock"
	CauseURL            CauseID = "url"
	CauseMode           CauseID = "other_auth"
	CauseNoSignature    CauseID = "no_signature"
	CauseNoSecret       CauseID = "no_secret"
	CauseUnknown        CauseID = "unknown"
)

// Cause is one explanation of a refusal.
type Cause struct {
	ID CauseID
	// Text says what is wrong and what to do, for the operator.
	Text string
	// Sure means that the request verifies once this is put right.
	Sure bool
}

// Check is one step of the verification.
type Check struct {
	Name   string
	OK     bool
	Detail string
}

// Explanation says why a request was refused, or that it was not. It never holds a
// secret, a computed signature or bytes of either; of the request it holds lengths,
// digests and times.
type Explanation struct {
	// Result is what Verify says.
	Result Result
	// Checks are the steps in order, up to the one that failed.
	Checks []Check
	// Facts are what was read of the request, as name and value.
	Facts [][2]string
	// Tried are the labels of the secrets, with why one was left out.
	Tried []Check
	// Causes are the explanations, the likeliest first; none for an authentic
	// request.
	Causes []Cause
}

// Explain verifies r and says in detail what came of it. Where r was refused it
// tries what is usually wrong, each with the request and the secrets at hand, and
// names first what it could prove. It is for people: it costs as much as some
// hundred verifications.
func (v *Verifier) Explain(r *Request, hints Hints) Explanation {
	e := Explanation{Result: v.Verify(r)}
	e.Checks = v.checks(e.Result)
	e.Facts = v.facts(r)
	e.Tried = v.tried(r.Now)
	if e.Result.Reason == OK {
		return e
	}
	l := &lab{v: v, r: r, res: e.Result, hints: hints}
	e.Causes = l.causes()
	return e
}

// String writes the explanation for a terminal.
func (e Explanation) String() string {
	var b strings.Builder
	if e.Result.Reason == OK {
		fmt.Fprintf(&b, "authentic (secret %s)\n", e.Result.Secret)
	} else {
		fmt.Fprintf(&b, "refused: %s: %s\n", e.Result.Reason, e.Result.Detail)
	}
	for i, c := range e.Causes {
		word := "perhaps"
		if c.Sure {
			word = "cause"
		}
		fmt.Fprintf(&b, "%d. %s: %s (%s)\n", i+1, word, c.Text, c.ID)
	}
	for _, c := range e.Checks {
		fmt.Fprintf(&b, "  %-10s %s%s\n", verdict(c.OK), c.Name, tail(c.Detail))
	}
	for _, f := range e.Facts {
		fmt.Fprintf(&b, "  %s: %s\n", f[0], f[1])
	}
	for _, c := range e.Tried {
		fmt.Fprintf(&b, "  secret %s: %s%s\n", c.Name, map[bool]string{true: "tried", false: "not tried"}[c.OK], tail(c.Detail))
	}
	return b.String()
}

func verdict(ok bool) string {
	if ok {
		return "passed"
	}
	return "failed"
}

func tail(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// lab tries one change after the other.
type lab struct {
	v     *Verifier
	r     *Request
	res   Result
	hints Hints
}

// experiment looks for one cause; ok is false where it is not that.
type experiment func(*lab) (Cause, bool)

// causes runs the experiments in the order of how often each is the cause, and
// puts what was proved first.
func (l *lab) causes() []Cause {
	if l.res.Reason == ReasonNoSecret {
		return []Cause{{ID: CauseNoSecret, Text: "no secret or key is configured and valid at this time", Sure: true}}
	}
	var sure, maybe []Cause
	for _, try := range []experiment{
		(*lab).clock, (*lab).unit, (*lab).otherSource, (*lab).secretSpace, (*lab).secretQuotes, (*lab).secretPrefix,
		(*lab).secretForm, (*lab).newlines, (*lab).bom, (*lab).gzip, (*lab).lineEnds, (*lab).url, (*lab).digest,
		(*lab).encoding, (*lab).otherMode, (*lab).charset, (*lab).reserialised, (*lab).testLive, (*lab).noSignature,
	} {
		c, ok := try(l)
		switch {
		case ok && c.Sure:
			sure = append(sure, c)
		case ok:
			maybe = append(maybe, c)
		}
		if len(sure) == 3 {
			break
		}
	}
	out := append(sure, maybe...)
	if len(out) == 0 {
		out = []Cause{{ID: CauseUnknown, Text: "the secret is another one, or the body was changed on the way in a manner that can't be undone"}}
	}
	return out
}

// passes reports whether the request verifies, whatever became of its age.
func passes(v *Verifier, r *Request) bool {
	if v == nil {
		return false
	}
	res := v.Verify(r)
	return res.Reason == OK || res.Secret != "" && (res.Reason == ReasonTimestampOld || res.Reason == ReasonTimestampFuture)
}

// with makes the verifier anew with other secrets, or nil where that can't be.
func (l *lab) with(secrets []Secret) *Verifier { return l.rebuild(secrets, nil) }

// rebuild makes the verifier anew with other secrets (nil keeps them) and an edited
// mode.
func (l *lab) rebuild(secrets []Secret, edit func(*Mode)) *Verifier {
	row := l.v.row.clone()
	if edit != nil {
		edit(&row.Modes[0])
	}
	if secrets == nil {
		secrets = l.secrets()
	}
	out, err := New(Config{Row: row, Auth: row.Modes[0].Name, Secrets: secrets, PublicKeys: l.v.publicKeys(),
		PublicURL: l.v.publicURL, Options: l.v.options, Guard: GuardOff})
	if err != nil {
		return nil
	}
	return out
}

// secrets are those of the verifier that are valid now.
func (l *lab) secrets() []Secret {
	var out []Secret
	for i := range l.v.keys {
		if l.v.keys[i].active(l.r.Now) {
			out = append(out, l.v.keys[i].Secret)
		}
	}
	return out
}

// publicKeys returns the configured public keys in a spelling New takes.
func (v *Verifier) publicKeys() []Secret {
	var keys []pubKey
	switch a := v.auth.(type) {
	case *pubAuth:
		keys = a.keys
	case httpSigAuth:
		keys = a.keys
	case *snsAuth:
		keys = a.keys
	case *jwtAuth:
		keys = a.keys
	}
	var out []Secret
	for _, k := range keys {
		out = append(out, k.Secret)
	}
	return out
}

// changed returns the request with another body.
func (l *lab) changed(body []byte) *Request {
	r := *l.r
	r.Body = body
	return &r
}

// variants tries secrets made from each of the verifier's by f.
func (l *lab) variants(f func(string) []string) (label string, ok bool) {
	for _, s := range l.secrets() {
		for _, text := range f(s.Value.Reveal()) {
			if text == s.Value.Reveal() || text == "" {
				continue
			}
			one := Secret{ID: s.ID, Value: NewSecretString(text)}
			if passes(l.with([]Secret{one}), l.r) {
				return s.ID, true
			}
		}
	}
	return "", false
}

// age writes a skew for people.
func age(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " in the future"
	}
	return d.Round(time.Second).String() + " ago"
}
