package cli

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
)

// TestFollowJobAway: a gateway that restarts is waited for, one that stays away is
// not waited for without end.
func TestFollowJobAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c, err := admin.NewClient(admin.ClientConfig{Addr: addr, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	follow := func(away time.Duration) (admin.Job, error) {
		var j admin.Job
		j.ID = "replay_1"
		return followJob(t.Context(), c, j, func(admin.Job) {}, away)
	}
	if _, err := follow(2 * jobPoll); !errors.Is(err, admin.ErrUnreachable) {
		t.Errorf("it stays away: %v", err)
	}
	back := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"replay_1","state":"done","opened":7}`))
	}))
	defer back.Close()
	time.AfterFunc(3*jobPoll, func() {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		back.Listener.Close()
		back.Listener = l
		back.Start()
	})
	if j, err := follow(time.Minute); err != nil || j.Opened != 7 {
		t.Errorf("it came back: %+v, %v", j, err)
	}
}
