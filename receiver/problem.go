package receiver

import (
	"net/http"
	"strconv"
)

// problemSpace begins the type of every problem. The names after it are a
// contract: programs branch on them.
const problemSpace = "urn:onceward:problem:"

const typeProblem = "application/problem+json"

var headerProblem = []string{typeProblem}

// The problems of synchronous routes (RFC 9457). Read-only.
var (
	problemKeyMissing = problem(http.StatusBadRequest, "key-missing", "This operation needs an Idempotency-Key.")
	problemKeyInvalid = problem(http.StatusBadRequest, "key-invalid",
		"The key must be one value of 1 to 255 visible ASCII characters, raw or as one quoted string.")
	problemPath      = problem(http.StatusBadRequest, "path-invalid", "The path holds dot segments or a broken escape.")
	problemBatch     = problem(http.StatusBadRequest, "batch-unsupported", "A synchronous route takes one event in a request.")
	problemReused    = problem(http.StatusUnprocessableEntity, "key-reused", "This key stands for another request.")
	problemInFlight  = problem(http.StatusConflict, "in-flight", "The first request with this key is still under way.").retry(1)
	problemUnknown   = problem(http.StatusBadGateway, "outcome-unknown", "Whether the operation was executed is not known. It is not tried again until an operator has settled it.")
	problemTryAgain  = problem(http.StatusBadGateway, "try-again", "The target gave no answer. The same request with the same key may be sent again.").retry(1)
	problemNoAnswer  = problem(http.StatusBadGateway, "no-answer", "The target gave no answer, and without a key nothing is known of the request.")
	problemReach     = problem(http.StatusServiceUnavailable, "target-unreachable", "The request did not reach the target and was not executed.").retry(1)
	problemLarge     = problem(http.StatusBadGateway, "response-too-large", "The target answered, with more than may be kept. The operation is not tried again.")
	problemStream    = problem(http.StatusNotImplemented, "streaming-unsupported", "Streaming answers can't be given here.")
	problemUpgrade   = problem(http.StatusNotImplemented, "upgrade-unsupported", "Protocol upgrades can't be made here.")
	problemForgotten = problem(http.StatusBadGateway, "outcome-unknown", "The answer could not be stored and is therefore not given.")
)

// problemKinds name the problems behind the statuses that every source has.
var problemKinds = map[int]string{
	http.StatusBadRequest: "request-broken", http.StatusUnauthorized: "not-authentic", http.StatusMethodNotAllowed: "method-not-allowed",
	http.StatusRequestTimeout: "body-too-slow", http.StatusRequestEntityTooLarge: "body-too-large",
	http.StatusUnsupportedMediaType: "encoding-unsupported", http.StatusInternalServerError: "internal-error",
	http.StatusServiceUnavailable: "try-later", http.StatusTooManyRequests: "try-later",
}

// problem is a problem document as an answer. Its bytes are the same each time.
func problem(status int, kind, title string) answer {
	body := append([]byte(`{"type":"`), problemSpace...)
	body = append(append(body, kind...), `","title":`...)
	body = appendJSON(body, title)
	body = strconv.AppendInt(append(body, `,"status":`...), int64(status), 10)
	return answer{status: status, contentType: headerProblem, body: append(body, '}')}
}

func (a answer) retry(seconds int) answer { return a.with("Retry-After", strconv.Itoa(seconds)) }

// shaped is a fixed answer in the form of the source: of a synchronous one it
// is a problem document, unless the provider's row says its bytes.
func (c *call) shaped(a *answer) *answer {
	if c.src.sync == nil || len(a.contentType) != 1 || a.contentType[0] != typeJSON || a.status < 400 {
		return a
	}
	p := problem(a.status, problemKinds[a.status], http.StatusText(a.status))
	p.header = a.header
	return &p
}
