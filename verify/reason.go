package verify

// Reason says why a request was refused, or that it was not. The set is closed,
// so that it can label a metric and be stored in an audit record.
type Reason string

// The reasons a [Result] can carry.
const (
	// OK means that the request is authentic.
	OK Reason = "ok"
	// ReasonSignatureMissing means that no signature or credential was sent.
	ReasonSignatureMissing Reason = "signature_missing"
	// ReasonSignatureMalformed means that the signature or credential could not
	// be read: wrong form, wrong encoding, sent twice, or too long.
	ReasonSignatureMalformed Reason = "signature_malformed"
	// ReasonSignatureMismatch means that no configured secret or key matched.
	ReasonSignatureMismatch Reason = "signature_mismatch"
	// ReasonSignedPartMissing means that something the signature covers, such
	// as an ID header, is absent or was sent twice.
	ReasonSignedPartMissing Reason = "signed_part_missing"
	// ReasonTimestampMissing means that the signed timestamp is absent.
	ReasonTimestampMissing Reason = "timestamp_missing"
	// ReasonTimestampMalformed means that the timestamp is not a plain number.
	ReasonTimestampMalformed Reason = "timestamp_malformed"
	// ReasonTimestampOld means that the request is authentic but was signed
	// longer ago than the tolerance.
	ReasonTimestampOld Reason = "timestamp_old"
	// ReasonTimestampFuture means that the request is authentic but was signed
	// further in the future than the tolerance.
	ReasonTimestampFuture Reason = "timestamp_future"
	// ReasonBodyMalformed means that the body had to be parsed and could not be.
	ReasonBodyMalformed Reason = "body_malformed"
	// ReasonBatchTooLarge means that an authentic batch has more elements than
	// the verifier was told to take.
	ReasonBatchTooLarge Reason = "batch_too_large"
	// ReasonHandshakeFailed means that a handshake was recognised but its
	// comparison failed or what it should echo is absent.
	ReasonHandshakeFailed Reason = "handshake_failed"
	// ReasonClaimMismatch means that a token was signed by a key that is known and
	// vouches for something else.
	ReasonClaimMismatch Reason = "claim_mismatch"
	// ReasonKeyUnavailable means that a public key has to be fetched and can't be:
	// nothing is known about the request, which should be sent again.
	ReasonKeyUnavailable Reason = "key_unavailable"
	// ReasonNoSecret means that no secret or key is configured, or none is valid
	// at the time of the request.
	ReasonNoSecret Reason = "no_secret"
)

// Reasons returns every reason, OK first, so that metrics can be created before
// the first request.
func Reasons() []Reason {
	return []Reason{
		OK,
		ReasonSignatureMissing, ReasonSignatureMalformed, ReasonSignatureMismatch,
		ReasonSignedPartMissing,
		ReasonTimestampMissing, ReasonTimestampMalformed, ReasonTimestampOld, ReasonTimestampFuture,
		ReasonBodyMalformed, ReasonBatchTooLarge, ReasonHandshakeFailed, ReasonClaimMismatch,
		ReasonKeyUnavailable, ReasonNoSecret,
	}
}
