package verify

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// defaultTolerance is used where a source sets a timestamp and no tolerance.
const defaultTolerance = 5 * minute

// New makes a verifier, or says everything that is wrong with cfg, joined.
func New(cfg Config) (*Verifier, error) {
	row := cfg.Row.clone()
	mode, err := row.pickMode(cfg.Auth)
	if err != nil {
		return nil, errors.Join(row.Validate(), err)
	}
	if err := applyOptions(&row, &mode, cfg.Options); err != nil {
		return nil, err
	}
	v := &Verifier{mode: mode, publicURL: cfg.PublicURL}
	errs := []error{v.readerFor(&row, cfg), v.authFor(cfg), v.handshakesFor(&row, cfg)}
	errs = append(errs, v.guardFor(&row, cfg), checkPublicURL(cfg.PublicURL))
	errs = append(errs, row.validateFacts())
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("provider %s: %w", row.Name, err)
	}
	row.IDSigned, row.BodySigned = v.coversID(), v.auth.coversBody()
	if row.Modes = []Mode{mode}; len(mode.ID) > 0 {
		row.ID = mode.ID
	}
	row.addHeaders(&mode, v.read)
	v.row = row
	return v, nil
}

// pickMode returns a copy of the mode of that name, or the first that may be a
// default.
func (r Row) pickMode(name string) (Mode, error) {
	var names []string
	for _, m := range r.Modes {
		if m.Name == name || name == "" && !m.Explicit {
			return m.clone(), nil
		}
		names = append(names, m.Name)
	}
	if name == "" {
		return Mode{}, fmt.Errorf("auth: provider %s has no default, want %s", r.Name, listOr(names))
	}
	return Mode{}, fmt.Errorf("auth %q: provider %s has %s", name, r.Name, listOr(names))
}

func (v *Verifier) readerFor(row *Row, cfg Config) error {
	ids := row.ID
	if len(v.mode.ID) > 0 {
		ids = v.mode.ID
	}
	id, err := parseAlternatives(ids)
	typ, terr := parseAlternatives(row.Type)
	errs := []error{wrap("id", err), wrap("type", terr)}
	v.read = reader{id: id, typ: typ, batch: row.Batch, max: cfg.MaxBatch}
	if cfg.MaxBatch == 0 {
		v.read.max = DefaultMaxBatch
	}
	if cfg.MaxBatch < 0 {
		errs = append(errs, fmt.Errorf("max batch %d: is negative", cfg.MaxBatch))
	}
	switch cfg.Batch {
	case "", "split":
	case "keep":
		v.read.batch = nil
	default:
		errs = append(errs, fmt.Errorf("batch %q: want split or keep", cfg.Batch))
	}
	if row.Batch != nil && v.read.batch == nil {
		// IDs and types are those of elements; the whole has neither in its body.
		v.read.id, v.read.typ = withoutBody(id), withoutBody(typ)
	}
	v.read.mustJSON = needsJSON(v.read.id)
	v.read.usesJSON = usesJSON(v.read.id) || usesJSON(v.read.typ)
	l, ok := firstHeader(id)
	v.read.unquote = ok && l.name == "Idempotency-Key"
	return errors.Join(errs...)
}

// withoutBody keeps the alternatives that don't look into the body.
func withoutBody(alts []composite) []composite {
	return slices.DeleteFunc(slices.Clone(alts), func(c composite) bool {
		return slices.ContainsFunc(c, func(l locator) bool { return l.kind != kindHeader && l.kind != kindQuery })
	})
}

// authFor makes the mode's family ready.
func (v *Verifier) authFor(cfg Config) error {
	m := &v.mode
	if cfg.Tolerance < 0 {
		return fmt.Errorf("tolerance %v: is negative", cfg.Tolerance)
	}
	if s := m.scheme(); s != nil && s.Timestamp != "" && cfg.Tolerance > 0 {
		s.Tolerance = Duration(cfg.Tolerance)
	}
	auth, keys, err := m.compile(v.read.id, cfg.Secrets, cfg.PublicKeys)
	v.auth, v.keys = auth, keys
	return errors.Join(err, m.fits(cfg), uniqueLabels(cfg.Secrets), uniqueLabels(cfg.PublicKeys))
}

// fits refuses keys that the mode would never look at: whoever wrote them thinks
// that they protect something.
func (m *Mode) fits(cfg Config) error {
	switch {
	case m.None && len(cfg.Secrets)+len(cfg.PublicKeys) > 0:
		return fmt.Errorf("auth %q: verifies nothing and takes no secrets", m.Name)
	case m.PublicKey != nil && len(cfg.Secrets) > 0 && len(cfg.PublicKeys) == 0:
		return fmt.Errorf("auth %q: takes public keys, not secrets", m.Name)
	case m.PublicKey == nil && len(cfg.PublicKeys) > 0:
		return fmt.Errorf("auth %q: takes secrets, not public keys", m.Name)
	}
	return nil
}

// scheme returns the mode's signature scheme, nil where it has none.
func (m *Mode) scheme() *Scheme {
	switch {
	case m.HMAC != nil:
		return &m.HMAC.Scheme
	case m.PublicKey != nil:
		return &m.PublicKey.Scheme
	default:
		return nil
	}
}

// compile makes the mode's one family ready.
func (m *Mode) compile(ids []composite, secrets, pub []Secret) (authenticator, []key, error) {
	switch {
	case m.HMAC != nil:
		a, err := m.HMAC.compile(ids, secrets)
		switch m.Custom {
		case "":
			return a, a.keys, err
		case customStripe:
			return stripeAuth{a}, a.keys, err
		case customTwilio:
			return twilioAuth{a}, a.keys, err
		}
		return a, a.keys, errors.Join(err, fmt.Errorf("custom %q: want stripe or twilio", m.Custom))
	case m.Token != nil:
		a, err := m.Token.compile(secrets)
		return a, a.keys, err
	case m.Basic != nil:
		a, err := m.Basic.compile(secrets)
		return a, a.keys, err
	case m.PublicKey != nil:
		a, err := m.PublicKey.compile(ids, pub)
		return a, nil, err
	case m.None:
		return noneAuth{}, nil, nil
	default:
		return noneAuth{}, nil, fmt.Errorf("mode %q: has no family", m.Name)
	}
}

// uniqueLabels keeps a label from naming two secrets.
func uniqueLabels(secrets []Secret) error {
	seen := map[string]bool{}
	var errs []error
	for _, s := range secrets {
		if s.ID != "" && seen[s.ID] {
			errs = append(errs, fmt.Errorf("secret %q: the label is used twice", s.ID))
		}
		seen[s.ID] = true
	}
	return errors.Join(errs...)
}

func (v *Verifier) handshakesFor(row *Row, cfg Config) error {
	opts := cfg.Options
	if opts == nil {
		opts = map[string]string{}
	}
	var errs []error
	for _, h := range row.Handshake {
		c, err := h.compile(opts)
		errs = append(errs, err)
		v.handshakes = append(v.handshakes, c)
	}
	return errors.Join(errs...)
}

// guardFor settles the replay guard: it needs a signature over bytes.
func (v *Verifier) guardFor(row *Row, cfg Config) error {
	v.guard = row.Guard
	if cfg.Guard != "" {
		v.guard = cfg.Guard
	}
	switch v.guard {
	case "":
		v.guard = GuardOff
	case GuardOff, GuardFlag, GuardDrop:
	default:
		return fmt.Errorf("guard %q: want off, flag or drop", v.guard)
	}
	if v.mode.scheme() == nil {
		if cfg.Guard != "" && cfg.Guard != GuardOff {
			return fmt.Errorf("guard %q: auth %q signs no bytes", cfg.Guard, v.mode.Name)
		}
		v.guard = GuardOff
	}
	row.Guard = v.guard
	return nil
}

func checkPublicURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("public_url %q: want http(s)://host/path without query", s)
	}
	return nil
}

// coversID reports whether every place an ID is taken from is signed.
func (v *Verifier) coversID() bool {
	for _, c := range v.read.id {
		for _, l := range c {
			if !v.auth.covers(l) {
				return false
			}
		}
	}
	return len(v.read.id) > 0
}

// addHeaders lists the headers that the schemes and locators in effect imply.
func (r *Row) addHeaders(m *Mode, rd reader) {
	add := func(list *[]string, l locator) {
		if l.kind == kindHeader && !slices.Contains(*list, l.name) {
			*list = append(*list, l.name)
		}
	}
	for _, alts := range [][]composite{rd.id, rd.typ} {
		for _, c := range alts {
			for _, l := range c {
				add(&r.EventHeaders, l)
			}
		}
	}
	if s := m.scheme(); s != nil {
		for _, at := range []string{s.Sig, s.Timestamp} {
			if l, err := parseLocator(at); err == nil {
				add(&r.SignatureHeaders, l)
			}
		}
	}
	if m.Token != nil {
		if l, err := parseLocator(m.Token.In); err == nil {
			if add(&r.CredentialHeaders, l); l.kind != kindHeader {
				r.CredentialParams = append(r.CredentialParams, l.String())
			}
		}
	}
	if m.Basic != nil && !slices.Contains(r.CredentialHeaders, "Authorization") {
		r.CredentialHeaders = append(r.CredentialHeaders, "Authorization")
	}
	isCredential := func(h string) bool { return slices.Contains(r.CredentialHeaders, h) }
	r.EventHeaders = slices.DeleteFunc(r.EventHeaders, isCredential)
	r.SignatureHeaders = slices.DeleteFunc(r.SignatureHeaders, isCredential)
}

// clone copies the row, so that no two share memory that either may change.
func (r Row) clone() Row {
	for _, list := range []*[]string{&r.Unconfirmed, &r.Methods, &r.ID, &r.Type, &r.Encodings,
		&r.EventHeaders, &r.SignatureHeaders, &r.CredentialHeaders, &r.CredentialParams, &r.Options} {
		*list = slices.Clone(*list)
	}
	for _, list := range []*[]string{&r.EventHeaders, &r.SignatureHeaders, &r.CredentialHeaders} {
		for i, h := range *list {
			(*list)[i] = http.CanonicalHeaderKey(h)
		}
	}
	r.Modes = slices.Clone(r.Modes)
	for i := range r.Modes {
		r.Modes[i] = r.Modes[i].clone()
	}
	if r.Batch != nil {
		b := *r.Batch
		r.Batch = &b
	}
	r.Handshake = slices.Clone(r.Handshake)
	for i := range r.Handshake {
		h := &r.Handshake[i]
		h.Detect, h.Compare = slices.Clone(h.Detect), slices.Clone(h.Compare)
		h.JSON, h.Header = maps.Clone(h.JSON), maps.Clone(h.Header)
	}
	r.Answer = r.Answer.clone()
	if r.Refusal != nil {
		a := r.Refusal.clone()
		r.Refusal = &a
	}
	return r
}

func (a Answer) clone() Answer {
	a.Header, a.Body = maps.Clone(a.Header), slices.Clone(a.Body)
	return a
}

func (m Mode) clone() Mode {
	if m.HMAC != nil {
		h := *m.HMAC
		m.HMAC = &h
	}
	if m.Token != nil {
		t := *m.Token
		m.Token = &t
	}
	if m.PublicKey != nil {
		p := *m.PublicKey
		m.PublicKey = &p
	}
	m.ID = slices.Clone(m.ID)
	return m
}

// methodOK reports whether s is an HTTP method in capitals.
func methodOK(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
