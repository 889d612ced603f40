package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells the service manager; without one it does nothing.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("service manager not notified", "event", "notify.failed", "error", err)
	}
}

// notifyReloading is sent with every reload: a manager that was told READY
// waits for the next READY.
func notifyReloading(log *slog.Logger) {
	notify(log, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
}

// watchdog reports that the process lives, at half the interval the service
// manager asks for. It says nothing of the ledger: a restart cures no disk.
func watchdog(ctx context.Context, log *slog.Logger) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog interval not understood", "event", "notify.failed", "error", err)
	}
	if every <= 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			notify(log, daemon.SdNotifyWatchdog)
		}
	}
}
