package admin

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/event"
)

// TargetTest is what one test request to a target found, step by step. Steps
// that were not reached, or not needed, are left out.
type TargetTest struct {
	Target string    `json:"target"`
	URL    string    `json:"url"` // scheme and host only, or the socket
	Proxy  string    `json:"proxy,omitempty"`
	Key    string    `json:"key"` // idempotency key that was sent
	Method string    `json:"method"`
	Signed bool      `json:"signed"`
	At     time.Time `json:"at"`

	Host      string         `json:"host,omitempty"` // that was looked up
	Addresses []string       `json:"addresses,omitempty"`
	DNS       float64        `json:"dns_s,omitempty"`
	Address   string         `json:"address,omitempty"` // that was connected to
	Connect   float64        `json:"connect_s,omitempty"`
	TLS       *TargetTestTLS `json:"tls,omitempty"`
	FirstByte float64        `json:"first_byte_s,omitempty"` // after the request was written
	Total     float64        `json:"total_s"`

	Status   int           `json:"status"` // 0 when no answer came
	Proto    string        `json:"proto,omitempty"`
	Outcome  event.Outcome `json:"outcome"`
	Error    string        `json:"error,omitempty"`
	Response string        `json:"response,omitempty"` // head of the answer, masked
}

// TargetTestTLS is what the handshake of a TargetTest agreed on.
type TargetTestTLS struct {
	Handshake float64   `json:"handshake_s"`
	Version   string    `json:"version"`
	Protocol  string    `json:"protocol,omitempty"`
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	NotAfter  time.Time `json:"not_after"`
}

// testTarget sends one request to a target. What goes wrong on the way is its
// result, not an error of the call.
func (a *Admin) testTarget(c echo.Context) error {
	if a.cfg.TestTarget == nil {
		return apiError(http.StatusNotFound, CodeNotFound, "this gateway can't test targets")
	}
	unhurried(c)
	name := c.Param("name")
	t, err := a.cfg.TestTarget(c.Request().Context(), name)
	if err != nil {
		return err
	}
	t.Response = audit.MaskResponse([]byte(t.Response))
	a.cfg.Log.Info("target tested", "target", t.Target, "outcome", t.Outcome, "status", t.Status, "remote_ip", peerOf(c.Request()))
	return c.JSON(http.StatusOK, t)
}
