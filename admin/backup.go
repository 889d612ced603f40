package admin

import (
	"context"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
)

// backup streams a copy of the ledger. An error after the first byte cuts it,
// and what reads it says so: a backup has an end.
func (a *Admin) backup(c echo.Context) error {
	if _, err := only(c.QueryParams()); err != nil {
		return err
	}
	unhurried(c)
	h := c.Response().Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="onceward.backup"`)
	ctx := c.Request().Context()
	about := int64(0)
	if st, err := a.cfg.Account.Stats(ctx); err == nil {
		about = st.SizeBytes
	}
	err := a.transfers.follow(TransferBackup, who(c).Name, about, c.Response(), func(w io.Writer) error { return a.cfg.Account.Backup(ctx, w) })
	if err != nil {
		if c.Response().Committed {
			a.cfg.Log.Error("backup was cut", "error", err)
			panic(http.ErrAbortHandler) // so that the client sees that it is not whole
		}
		return err
	}
	return nil
}

// Backup writes a copy of the gateway's ledger to w and returns how many bytes
// there were. An error means that w holds only a part.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	return c.copyTo(ctx, w, "backup", "/backup", nil)
}
