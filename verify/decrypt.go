package verify

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

// The ways a body is encrypted, as [Mode.Decrypt] names them.
const (
	// decryptLark is AES-256-CBC under the SHA-256 of the secret, with the vector
	// before the ciphertext in the JSON field encrypt.
	decryptLark = "lark"
	// decryptWeChat is AES-256-CBC under the option encoding_aes_key, with a length
	// before the text and the receiver's ID, the option receive_id, behind it.
	decryptWeChat = "wechat"
)

// Names of the options that wechat needs.
const (
	optionAESKey    = "encoding_aes_key"
	optionReceiveID = "receive_id"
)

// opener decrypts bodies. The signature covers what was sent, so that nothing is
// decrypted for an answer before it is verified, except where a handshake comes
// encrypted and unsigned.
type opener struct {
	from source
	pad  int
	keys []aesKey
	open func(k *aesKey, b []byte, pad int) ([]byte, bool)
	id   string // what stands behind the text
}

type aesKey struct {
	secret *Secret // whose time bounds it; nil for none
	block  cipher.Block
	iv     []byte // where the protocol fixes it
}

// compileDecrypt makes a mode's decryption ready; nil where it has none.
func compileDecrypt(name string, secrets []Secret, opts map[string]string) (*opener, error) {
	switch name {
	case "":
		return nil, nil
	case decryptLark:
		o := &opener{from: mustSource("json:encrypt"), pad: aes.BlockSize, open: openLark}
		for i := range secrets {
			sum := sha256.Sum256([]byte(secrets[i].Value.Reveal()))
			block, err := aes.NewCipher(sum[:])
			if err != nil {
				return nil, err
			}
			o.keys = append(o.keys, aesKey{secret: &secrets[i], block: block})
		}
		return o, nil
	case decryptWeChat:
		o := &opener{from: mustSource("xml:Encrypt ?? json:encrypt ?? query:echostr"), pad: 32, id: opts[optionReceiveID]}
		o.open = o.openWeChat
		if opts == nil {
			return o, nil
		}
		raw, err := base64.RawStdEncoding.DecodeString(opts[optionAESKey])
		if err != nil || len(raw) != 32 {
			return nil, fmt.Errorf("option %s: want the 43 characters the provider shows", optionAESKey)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		o.keys = []aesKey{{block: block, iv: raw[:aes.BlockSize]}}
		return o, nil
	default:
		return nil, fmt.Errorf("decrypt %q: want lark or wechat", name)
	}
}

// mustSource parses a place that is written in this package.
func mustSource(s string) source {
	src, err := parseSource(s)
	if err != nil {
		panic("verify: " + err.Error())
	}
	return src
}

var errOpen = errors.New("the encrypted body can't be read")

// apply puts what is inside the body into x.plain. A body that is not encrypted is
// left as it is.
func (o *opener) apply(x *exchange) error {
	text, _, p := o.from.find(x)
	if p == absent {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || p != once {
		return errOpen
	}
	for i := range o.keys {
		k := &o.keys[i]
		if k.secret != nil && !k.secret.active(x.req.Now) {
			continue
		}
		if plain, ok := o.open(k, b, o.pad); ok {
			x.plain, x.state = plain, jsonUnknown
			return nil
		}
	}
	return errOpen
}

// clear takes what was decrypted out of sight.
func (x *exchange) clear() { x.plain, x.state = nil, jsonUnknown }

func openLark(k *aesKey, b []byte, pad int) ([]byte, bool) {
	if len(b) < 2*aes.BlockSize || len(b)%aes.BlockSize != 0 {
		return nil, false
	}
	out := make([]byte, len(b)-aes.BlockSize)
	cipher.NewCBCDecrypter(k.block, b[:aes.BlockSize]).CryptBlocks(out, b[aes.BlockSize:])
	out, ok := unpad(out, pad)
	return out, ok && checkJSON(out) == jsonValid
}

// openWeChat reads 16 random bytes, a length, the text and the receiver's ID. The
// vector is the beginning of the key: that is the provider's protocol.
func (o *opener) openWeChat(k *aesKey, b []byte, pad int) ([]byte, bool) {
	if len(b) < 2*aes.BlockSize || len(b)%aes.BlockSize != 0 {
		return nil, false
	}
	out := make([]byte, len(b))
	cipher.NewCBCDecrypter(k.block, k.iv).CryptBlocks(out, b)
	out, ok := unpad(out, pad)
	if !ok || len(out) < 20 {
		return nil, false
	}
	n := binary.BigEndian.Uint32(out[16:20])
	rest := out[20:]
	if uint64(n) > uint64(len(rest)) {
		return nil, false
	}
	if tail := rest[n:]; o.id != "" && subtle.ConstantTimeCompare(tail, []byte(o.id)) != 1 {
		return nil, false
	}
	return rest[:n], true
}

// unpad takes PKCS #7 padding away.
func unpad(b []byte, size int) ([]byte, bool) {
	if len(b) == 0 {
		return nil, false
	}
	n := int(b[len(b)-1])
	if n == 0 || n > size || n > len(b) {
		return nil, false
	}
	if !bytes.Equal(b[len(b)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, false
	}
	return b[:len(b)-n], true
}

// openAll decrypts a request that was verified, or says why it can't be.
func (v *Verifier) openAll(x *exchange) Result {
	if v.opener == nil {
		return Result{Reason: OK}
	}
	if err := v.opener.apply(x); err != nil {
		return refuse(ReasonBodyMalformed, err.Error())
	}
	return Result{Reason: OK}
}
