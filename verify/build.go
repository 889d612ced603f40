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
	opts := map[string]string{}
	maps.Copy(opts, cfg.Options)
	if err := applyOptions(&row, &mode, opts); err != nil {
		return nil, err
	}
	cfg.Options = opts
	v := &Verifier{mode: mode, publicURL: cfg.PublicURL, options: opts, echo: row.EchoHeaders}
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
	batch, berr := row.Batch.compile(cfg.Options)
	errs = append(errs, berr)
	v.read = reader{id: id, typ: typ, batch: batch, max: cfg.MaxBatch}
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
	v.read.mustJSON = needsJSON(v.read.id) && !row.AnyBody
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
	if m.JWT != nil && cfg.Tolerance > 0 {
		m.JWT.MaxAge = Duration(cfg.Tolerance)
	}
	auth, keys, err := m.compile(parts{v.read.id, cfg.Secrets, cfg.PublicKeys, cfg.Options, cfg.Fetcher})
	v.auth, v.keys = auth, keys
	for _, l := range lookups(auth) {
		l.fetch, l.roots = cfg.Fetcher, cfg.Roots
	}
	require, rerr := parseConditions("require", m.Require, cfg.Options)
	v.require = require
	opener, derr := compileDecrypt(m.Decrypt, cfg.Secrets, cfg.Options)
	v.opener = opener
	return errors.Join(err, rerr, derr, m.fits(cfg), uniqueLabels(cfg.Secrets), uniqueLabels(cfg.PublicKeys))
}

// lookups returns where a family fetches its keys.
func lookups(a authenticator) []*keyLookup {
	var l *keyLookup
	switch a := a.(type) {
	case *pubAuth:
		l = a.lookup
	case *jwtAuth:
		l = a.lookup
	case httpSigAuth:
		l = a.lookup
	case *snsAuth:
		l = a.lookup
	}
	if l == nil {
		return nil
	}
	return []*keyLookup{l}
}

// fits refuses keys that the mode would never look at: whoever wrote them thinks
// that they protect something.
func (m *Mode) fits(cfg Config) error {
	secrets, public := m.takes()
	switch {
	case m.None && len(cfg.Secrets)+len(cfg.PublicKeys) > 0:
		return fmt.Errorf("auth %q: verifies nothing and takes no secrets", m.Name)
	case !secrets && len(cfg.Secrets) > 0:
		return fmt.Errorf("auth %q: takes public keys, not secrets", m.Name)
	case !public && len(cfg.PublicKeys) > 0:
		return fmt.Errorf("auth %q: takes secrets, not public keys", m.Name)
	}
	return nil
}

// takes reports what key material the mode looks at.
func (m *Mode) takes() (secrets, public bool) {
	switch {
	case m.PublicKey != nil:
		t, err := parseTemplate(m.PublicKey.Signed)
		return err == nil && t.has(partSecret), true
	case m.JWT != nil:
		for _, alg := range m.JWT.Algorithms {
			secrets = secrets || strings.HasPrefix(alg, "HS")
			public = public || !strings.HasPrefix(alg, "HS")
		}
		return secrets, public
	default:
		return !m.None, false
	}
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

// parts is what a family is made from. With opts nil, options are not looked up.
type parts struct {
	ids          []composite
	secrets, pub []Secret
	opts         map[string]string
	fetch        Fetcher
}

// compile makes the mode's one family ready.
func (m *Mode) compile(p parts) (authenticator, []key, error) {
	if m.Custom != "" {
		return m.compileCustom(p)
	}
	switch {
	case m.HMAC != nil:
		a, err := m.HMAC.compile(p.ids, p.secrets)
		return a, a.keys, errors.Join(err, needOptions(a.options(), p.opts))
	case m.Token != nil:
		a, err := m.Token.compile(p.secrets)
		return a, a.keys, err
	case m.Basic != nil:
		a, err := m.Basic.compile(p.secrets)
		return a, a.keys, err
	case m.PublicKey != nil:
		a, err := m.PublicKey.compile(p.ids, p.pub, p.secrets, p.opts)
		return a, a.secrets, errors.Join(err, needOptions(a.options(), p.opts))
	case m.JWT != nil:
		a, err := m.JWT.compile(p.secrets, p.pub, p.opts)
		return a, a.secrets, err
	case m.None:
		return noneAuth{}, nil, nil
	default:
		return noneAuth{}, nil, fmt.Errorf("mode %q: has no family", m.Name)
	}
}

// needOptions demands options that a template holds.
func needOptions(names []string, opts map[string]string) error {
	var errs []error
	for _, name := range names {
		if opts != nil && opts[name] == "" {
			errs = append(errs, fmt.Errorf("option %s: the signature covers it", name))
		}
	}
	return errors.Join(errs...)
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
	if v.mode.scheme() == nil && (v.auth == nil || !v.auth.coversBody()) {
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
		places := []string{s.Sig, s.Timestamp}
		for _, p := range s.More {
			places = append(places, p.In)
		}
		for _, at := range places {
			src, _ := parseSource(at) // a timestamp inside the signature is none
			for _, l := range src {
				add(&r.SignatureHeaders, l)
			}
		}
	}
	r.addCredentials(m, add)
	if m.Basic != nil && !slices.Contains(r.CredentialHeaders, "Authorization") {
		r.CredentialHeaders = append(r.CredentialHeaders, "Authorization")
	}
	isCredential := func(h string) bool {
		return h == "Authorization" || h == "Cookie" || strings.HasSuffix(h, "#") || slices.Contains(r.CredentialHeaders, h)
	}
	r.EventHeaders = slices.DeleteFunc(r.EventHeaders, isCredential)
	r.SignatureHeaders = slices.DeleteFunc(r.SignatureHeaders, isCredential)
}

// addCredentials lists where tokens are: a bearer of any kind never passes.
func (r *Row) addCredentials(m *Mode, add func(*[]string, locator)) {
	at := ""
	if m.Token != nil {
		at = m.Token.In
	} else if m.JWT != nil {
		at = m.JWT.In
	}
	src, _ := parseSource(at) // validated where it is compiled
	for _, l := range src {
		switch {
		case l.kind == kindHeader && (m.Token != nil || !r.vouches(m)):
			add(&r.CredentialHeaders, l)
		case l.kind == kindHeader:
			add(&r.SignatureHeaders, l)
		case l.kind != kindBody && m.Token != nil && m.Token.Each == "":
			r.CredentialParams = append(r.CredentialParams, l.String())
		case m.Token != nil && m.Token.Each != "":
			r.CredentialParams = append(r.CredentialParams, "json:"+m.Token.Each)
		}
	}
}

// vouches reports whether a token is bound to the body, and so is a signature and
// no bearer's credential.
func (*Row) vouches(m *Mode) bool {
	return m.JWT != nil && (m.JWT.Detached || m.JWT.BodyHash != "" && !m.JWT.BodyHashOptional)
}

// clone copies the row, so that no two share memory that either may change.
func (r Row) clone() Row {
	for _, list := range []*[]string{&r.Unconfirmed, &r.Methods, &r.ID, &r.Type, &r.Encodings,
		&r.EventHeaders, &r.SignatureHeaders, &r.CredentialHeaders, &r.CredentialParams, &r.Options, &r.NeverID, &r.EchoHeaders} {
		*list = slices.Clone(*list)
	}
	for _, list := range []*[]string{&r.EventHeaders, &r.SignatureHeaders, &r.CredentialHeaders, &r.EchoHeaders} {
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
		b.Also, b.When = slices.Clone(b.Also), slices.Clone(b.When)
		r.Batch = &b
	}
	r.OptionSets = maps.Clone(r.OptionSets)
	for name, list := range r.OptionSets {
		r.OptionSets[name] = slices.Clone(list)
	}
	r.Handshake = slices.Clone(r.Handshake)
	for i := range r.Handshake {
		h := &r.Handshake[i]
		h.Detect, h.Compare = slices.Clone(h.Detect), slices.Clone(h.Compare)
		h.ConfirmHosts = slices.Clone(h.ConfirmHosts)
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
		h.Scheme, h.Digests = h.Scheme.clone(), maps.Clone(h.Digests)
		m.HMAC = &h
	}
	if m.Token != nil {
		t := *m.Token
		m.Token = &t
	}
	if m.PublicKey != nil {
		p := *m.PublicKey
		p.Scheme, p.Keys = p.Scheme.clone(), p.Keys.clone()
		m.PublicKey = &p
	}
	if m.JWT != nil {
		j := *m.JWT
		j.Algorithms, j.Claims, j.Keys = slices.Clone(j.Algorithms), maps.Clone(j.Claims), j.Keys.clone()
		m.JWT = &j
	}
	m.ID, m.Require = slices.Clone(m.ID), slices.Clone(m.Require)
	return m
}

func (s Scheme) clone() Scheme {
	s.More, s.Or = slices.Clone(s.More), slices.Clone(s.Or)
	return s
}

func (k *KeySource) clone() *KeySource {
	if k == nil {
		return nil
	}
	c := *k
	c.Hosts = slices.Clone(c.Hosts)
	return &c
}

// methodOK reports whether s is an HTTP method in capitals.
func methodOK(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
