package verify

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Validate reports every fault of the row at once: names, enums, durations,
// locators, templates, handshakes, and headers that are both credential and
// allowed to pass.
func (r Row) Validate() error {
	errs := []error{r.validateFacts()}
	if len(r.Modes) == 0 {
		errs = append(errs, errors.New("modes: there is none"))
	}
	seen := map[string]bool{}
	for _, m := range r.Modes {
		if m.Name == "" || seen[m.Name] {
			errs = append(errs, fmt.Errorf("mode %q: names are not empty and not used twice", m.Name))
		}
		seen[m.Name] = true
		errs = append(errs, wrap(fmt.Sprintf("mode %q", m.Name), r.validateMode(m)))
	}
	for _, h := range r.Handshake {
		_, err := h.compile(nil)
		errs = append(errs, err)
		for _, c := range h.Compare {
			if _, option, _ := strings.Cut(c, "="); option != "secret" && !slices.Contains(r.Options, option) {
				errs = append(errs, fmt.Errorf("handshake %q: option %q is not listed", h.Name, option))
			}
		}
		if h.Pending != "" && !slices.Contains(r.Options, h.Pending) {
			errs = append(errs, fmt.Errorf("handshake %q: option %q is not listed", h.Name, h.Pending))
		}
		if h.Method != "" && !slices.Contains(r.methods(), h.Method) {
			errs = append(errs, fmt.Errorf("handshake %q: method %s is not listed", h.Name, h.Method))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("provider %q: %w", r.Name, err)
	}
	return nil
}

// methods returns the methods the row takes.
func (r Row) methods() []string {
	if len(r.Methods) == 0 {
		return []string{"POST"}
	}
	return r.Methods
}

// validateMode checks one mode as if no secret were configured yet.
func (r Row) validateMode(m Mode) error {
	families := 0
	for _, set := range []bool{m.HMAC != nil, m.Token != nil, m.Basic != nil, m.PublicKey != nil, m.JWT != nil, m.None} {
		if set {
			families++
		}
	}
	if families != 1 && (families != 0 || m.Custom == "") {
		return fmt.Errorf("has %d families, want exactly one", families)
	}
	ids := r.ID
	if len(m.ID) > 0 {
		ids = m.ID
	}
	alts, err := parseAlternatives(ids)
	_, _, cerr := m.compile(parts{ids: alts})
	_, rerr := parseConditions("require", m.Require, nil)
	_, derr := compileDecrypt(m.Decrypt, nil, nil)
	errs := []error{wrap("id", err), cerr, rerr, derr}
	if m.Custom != "" && !families1(m) {
		errs = append(errs, errors.New("custom: stands alone or beside an hmac or public key that describes it"))
	}
	for _, name := range m.options() {
		if !slices.Contains(r.Options, name) {
			errs = append(errs, fmt.Errorf("option %q: is not listed", name))
		}
	}
	return errors.Join(errs...)
}

// families1 reports whether a custom mode has no other family than those that may
// describe it.
func families1(m Mode) bool {
	return m.Token == nil && m.Basic == nil && m.JWT == nil && !m.None
}

// options returns the options that the mode reads by name.
func (m *Mode) options() []string {
	var out []string
	for _, s := range m.Require {
		if name := optionOf(s); name != "" {
			out = append(out, name)
		}
	}
	if s := m.scheme(); s != nil {
		c, _ := s.compile(nil) // faults are reported where the family is compiled
		out = append(out, c.options()...)
	}
	if m.JWT != nil {
		out = append(out, m.JWT.options()...)
		if m.JWT.Keys != nil {
			out = append(out, optionNames(m.JWT.Keys.URL)...)
		}
	}
	if m.PublicKey != nil && m.PublicKey.Keys != nil {
		out = append(out, optionNames(m.PublicKey.Keys.URL)...)
	}
	if m.Decrypt == decryptWeChat {
		out = append(out, optionAESKey)
	}
	return out
}

// validateFacts checks what does not depend on a mode.
func (r Row) validateFacts() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if !validName(r.Name) {
		bad("name %q: want [a-z0-9][a-z0-9_-]{0,62}", r.Name)
	}
	if u, err := url.Parse(r.Docs); r.Docs != "" && (err != nil || u.Scheme != "https") {
		bad("docs %q: want an https link", r.Docs)
	}
	for _, m := range r.Methods {
		if !methodOK(m) {
			bad("method %q: want capitals", m)
		}
	}
	if !slices.Contains([]NoID{"", NoIDBodyHash, NoIDDeliver, NoIDRefuse}, r.NoID) {
		bad("no_id %q: want body-hash, deliver or refuse", r.NoID)
	}
	if !slices.Contains([]OnConflict{"", OnConflictAck, OnConflictDeliver, OnConflictReject}, r.OnConflict) {
		bad("on_conflict %q: want ack, deliver or reject", r.OnConflict)
	}
	if !slices.Contains([]Guard{"", GuardOff, GuardFlag, GuardDrop}, r.Guard) {
		bad("guard %q: want off, flag or drop", r.Guard)
	}
	if r.Retries < 0 || r.Window < 0 || r.Patience < 0 || r.BodyLimit < 0 {
		bad("retries, window, patience and body_limit are never negative")
	}
	if r.Window > 0 && r.Window < r.Retries {
		bad("window %v: is shorter than the provider's retries %v", r.Window, r.Retries)
	}
	if _, err := r.Batch.compile(nil); err != nil {
		errs = append(errs, err)
	}
	for _, h := range r.EchoHeaders {
		if !validHeaderName(h) {
			bad("echo header %q: is not a header name", h)
		}
	}
	if r.OverloadStatus != 0 && (r.OverloadStatus < 400 || r.OverloadStatus > 599) {
		bad("overload_status %d: want 4xx or 5xx", r.OverloadStatus)
	}
	_, err := parseAlternatives(r.Type)
	return errors.Join(append(errs, wrap("type", err), r.validateHeaders())...)
}

// validateHeaders checks the three lists of headers against each other.
func (r Row) validateHeaders() error {
	var errs []error
	credential := map[string]bool{}
	for _, h := range r.CredentialHeaders {
		credential[strings.ToLower(h)] = true
	}
	for _, h := range slices.Concat(r.EventHeaders, r.SignatureHeaders) {
		switch low := strings.ToLower(h); {
		case credential[low], low == "authorization", low == "proxy-authorization", low == "cookie":
			errs = append(errs, fmt.Errorf("header %q: carries a credential and never passes", h))
		case !validHeaderName(h):
			errs = append(errs, fmt.Errorf("header %q: is not a header name", h))
		}
	}
	for _, p := range r.CredentialParams {
		_, err := parseLocator(p)
		errs = append(errs, wrap("credential_params", err))
	}
	return errors.Join(errs...)
}

// validName reports whether s can name a provider or a source.
func validName(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '_' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'Z' || !isAlnum(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
