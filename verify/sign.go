package verify

import (
	"crypto"
	"errors"
	"net/http"
	"time"
)

// ErrCannotSign says that a mode's requests can only be made by the provider.
var ErrCannotSign = errors.New("cannot sign for this provider")

// SignRequest says what to sign.
type SignRequest struct {
	// Now becomes the timestamp.
	Now time.Time
	// ID and Type are set as headers where the row has them there.
	ID, Type string
	// Method defaults to the row's first, URL is needed where it is signed.
	Method, URL string
	// Header is copied and added to.
	Header http.Header
	// Body is signed as it is. Nil makes the smallest body that holds ID and Type
	// where the row looks for them.
	Body []byte
	// Secret names the secret by label; empty takes the first valid at Now.
	Secret string
	// PrivateKey signs for public-key modes.
	PrivateKey crypto.Signer
}

// SignedRequest is a request that the same verifier finds authentic.
type SignedRequest struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Sign makes an authentic request, for trying a source without its provider.
func (v *Verifier) Sign(r SignRequest) (SignedRequest, error) {
	return SignedRequest{}, ErrCannotSign
}

// CanSign reports whether requests in the given mode (empty is the default) can
// be made with the configured secret alone.
func (r Row) CanSign(mode string) bool { return false }

// SampleBody returns the smallest body that holds id and typ where the row
// looks for them, and its content type.
func (r Row) SampleBody(id, typ string) (body []byte, contentType string) { return nil, "" }
