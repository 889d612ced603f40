package admin

import (
	"context"
	"io"
	"net/url"
	"strconv"
)

// ActFilter selects acts; empty conditions select everything. Since and To are
// times or ages, as in Filter.
type ActFilter struct {
	Kind   string // several with commas between
	Ref    string
	Source string
	Target string
	Actor  string
	Since  string
	To     string
}

// Acts lists what was recorded, newest first.
func (c *Client) Acts(ctx context.Context, f ActFilter, cursor string, limit int) (Page[Act], error) {
	v := url.Values{}
	set(v, "kind", f.Kind)
	set(v, "ref", f.Ref)
	set(v, "source", f.Source)
	set(v, "target", f.Target)
	set(v, "actor", f.Actor)
	set(v, "since", f.Since)
	set(v, "to", f.To)
	set(v, "cursor", cursor)
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return get[Page[Act]](ctx, c, "/audit", v)
}

// AuditKey is the public key of the gateway's account.
func (c *Client) AuditKey(ctx context.Context) (AuditKey, error) {
	return get[AuditKey](ctx, c, "/audit/key", nil)
}

// SignAudit makes a checkpoint of each log and returns them.
func (c *Client) SignAudit(ctx context.Context) ([]Checkpoint, error) {
	p, err := post[Page[Checkpoint]](ctx, c, "/audit/checkpoint", nil, nil)
	return p.Items, err
}

// ExportAudit writes the whole account to w, as audit.Verify reads it. An error
// after the first byte means that w has only a part.
func (c *Client) ExportAudit(ctx context.Context, w io.Writer) error {
	_, err := c.copyTo(ctx, w, "export", "/audit/export", nil)
	return err
}

// Proof is the receipt of one event. id is a ref or the provider's ID, looked
// up in source or, with "", in every source.
func (c *Client) Proof(ctx context.Context, id, source string) (Receipt, error) {
	return get[Receipt](ctx, c, "/events/"+escape(id)+"/proof", sourced(source))
}
