package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onceward/onceward/admin"
)

// filterFlags are the conditions that list and replay commands share.
type filterFlags struct{ admin.Filter }

func (f *filterFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Source, "source", "", "only of this `source`")
	fs.StringVar(&f.Type, "type", "", "only of this event `type`; * stands for any text")
	fs.StringVar(&f.Target, "target", "", "only bound for this `target`")
	fs.StringVar(&f.ID, "id", "", "only with this event `ID` of the provider")
	fs.StringVar(&f.Where, "where", "", "only with this value of an indexed field, as in `customer=cus_9`")
	fs.StringVar(&f.From, "from", "", "not older than `time`: RFC 3339, or an age as in 24h or 7d")
	fs.StringVar(&f.To, "to", "", "older than `time`")
	fs.StringVar(&f.Since, "since", "", "another word for --from; `time` as there")
}

func (f *filterFlags) registerStatus(fs *pflag.FlagSet) {
	fs.StringVar(&f.Status, "status", "", "only events in `status` pending, delivered, dead, cancelled or unrouted")
}

func (f *filterFlags) registerState(fs *pflag.FlagSet) {
	fs.StringVar(&f.State, "state", "", "only deliveries in `state` pending, leased, delivered, dead or cancelled")
}

// pageFlags say how much of a list is wanted.
type pageFlags struct {
	limit int
	all   bool
}

func (p *pageFlags) register(c *cobra.Command) {
	c.Flags().IntVar(&p.limit, "limit", 50, "how many to print")
	c.Flags().BoolVar(&p.all, "all", false, "print all of them")
}

func (p *pageFlags) check() error {
	if p.limit < 1 {
		return usage("--limit %d: want at least 1", p.limit)
	}
	return nil
}
