package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the listener's instruments.
type metrics struct {
	requests     *prometheus.CounterVec // by route pattern and status code
	authFailures *prometheus.CounterVec // by reason
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_admin_requests_total",
			Help: "Requests to the operator's listener.",
		}, []string{"route", "code"}),
		authFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_admin_auth_failures_total",
			Help: "Requests to the operator's listener without a valid token.",
		}, []string{"reason"}),
	}
	for _, reason := range authReasons() {
		m.authFailures.WithLabelValues(reason)
	}
	for _, code := range []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusForbidden, http.StatusMisdirectedRequest} {
		m.requests.WithLabelValues(noRoute, strconv.Itoa(code))
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.authFailures} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
