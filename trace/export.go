package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	exportTimeout = 10 * time.Second
	tries         = 3
	maxPause      = 10 * time.Second
	sayEvery      = time.Minute
)

// exporter posts batches. It belongs to Run.
type exporter struct {
	r        *Recorder
	resource *resource.Resource
	scope    *common.InstrumentationScope
	said     time.Time       // when a failure was last logged
	stopping <-chan struct{} // closed: no pause is worth it
}

func newExporter(r *Recorder, stopping <-chan struct{}) *exporter {
	res := &resource.Resource{Attributes: attributes([]Attr{{Key: "service.name", Text: r.cfg.Service}})}
	for _, a := range []Attr{{Key: "service.version", Text: r.cfg.Version}, {Key: "service.instance.id", Text: r.cfg.Instance}} {
		if a.Text != "" {
			res.Attributes = append(res.Attributes, attributes([]Attr{a})...)
		}
	}
	return &exporter{r: r, stopping: stopping, resource: res, scope: &common.InstrumentationScope{Name: "onceward", Version: r.cfg.Version}}
}

func (x *exporter) close() {
	if c, ok := x.r.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// export posts one batch, again after a pause where the collector asks for
// that or can't be reached. Meanwhile the queue fills, and then drops.
func (x *exporter) export(ctx context.Context, batch []*Span) {
	body, err := x.encode(batch)
	for try := 1; err == nil; try++ {
		var pause time.Duration
		if pause, err = x.post(ctx, body); err == nil {
			x.r.exported.Add(float64(len(batch)))
			return
		}
		if pause < 0 || try == tries || ctx.Err() != nil {
			break
		}
		timer := time.NewTimer(max(pause, time.Duration(try)*time.Second))
		select {
		case <-timer.C:
			err = nil
		case <-x.stopping:
			timer.Stop()
		}
	}
	x.r.failed.Add(float64(len(batch)))
	if now := time.Now(); now.Sub(x.said) >= sayEvery {
		x.said = now
		x.r.cfg.Log.Warn("spans are lost: the collector does not take them", "event", "trace.export_failed", "spans", len(batch), "error", err)
	}
}

// post sends one request. On an error pause is how long the collector wants to
// be left alone, negative when it would never take these spans.
func (x *exporter) post(ctx context.Context, body []byte) (pause time.Duration, err error) {
	ctx, stop := context.WithTimeout(ctx, exportTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.r.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	for name, value := range x.r.cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "Onceward/"+x.r.cfg.Version)
	resp, err := x.r.cfg.Transport.RoundTrip(req) // follows no redirect
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		pause = min(time.Duration(max(seconds, 0))*time.Second, maxPause)
	default:
		pause = -1
	}
	return pause, fmt.Errorf("collector answered %s", resp.Status)
}

// encode is the batch as the OTLP message of it.
func (x *exporter) encode(batch []*Span) ([]byte, error) {
	spans := make([]*otlp.Span, len(batch))
	for i, s := range batch {
		spans[i] = message(s)
	}
	return proto.Marshal(&otlp.TracesData{ResourceSpans: []*otlp.ResourceSpans{{
		Resource: x.resource, ScopeSpans: []*otlp.ScopeSpans{{Scope: x.scope, Spans: spans}},
	}}})
}

// sampledFlag is the flag of the W3C trace flags in a span's flags.
const sampledFlag = 1

func message(s *Span) *otlp.Span {
	m := &otlp.Span{
		TraceId: s.Context.Trace[:], SpanId: s.Context.Span[:], Flags: sampledFlag, Name: s.Name, Kind: kinds[s.Kind],
		StartTimeUnixNano: uint64(max(s.Start.UnixNano(), 0)), EndTimeUnixNano: uint64(max(s.End.UnixNano(), s.Start.UnixNano(), 0)),
		Attributes: attributes(s.Attrs),
	}
	if s.Parent != (SpanID{}) {
		m.ParentSpanId = s.Parent[:]
	}
	if !s.Link.IsZero() {
		m.Links = []*otlp.Span_Link{{TraceId: s.Link.Trace[:], SpanId: s.Link.Span[:]}}
	}
	if s.Error != "" {
		m.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: s.Error}
	}
	return m
}

var kinds = [...]otlp.Span_SpanKind{Server: otlp.Span_SPAN_KIND_SERVER, Client: otlp.Span_SPAN_KIND_CLIENT}

func attributes(attrs []Attr) []*common.KeyValue {
	out := make([]*common.KeyValue, len(attrs))
	for i, a := range attrs {
		v := &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: a.Num}}
		if a.Text != "" {
			v.Value = &common.AnyValue_StringValue{StringValue: valid(a.Text)}
		}
		out[i] = &common.KeyValue{Key: a.Key, Value: v}
	}
	return out
}
