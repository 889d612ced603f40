package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// gateways are those that share the ledger, with what is wrong with each.
func (a *Admin) gateways() []Gateway {
	if a.cfg.Gateways == nil {
		return nil
	}
	return Compared(a.cfg.Gateways())
}

// Compared says of each gateway how it differs from the one that answers.
func Compared(all []Gateway) []Gateway {
	i := slices.IndexFunc(all, func(g Gateway) bool { return g.Own })
	for n := range all {
		g := &all[n]
		switch {
		case g.Dead:
			g.Problem = "has not been heard of for " + span(time.Duration(g.Age)*time.Second)
		case i < 0 || n == i:
		case g.Config != all[i].Config:
			g.Problem = "runs another configuration"
		case g.Version != all[i].Version:
			g.Problem = "runs another version, " + g.Version
		}
	}
	return all
}

// fleetTroubles are gateways that do something else with an event than this one
// does.
func (v *view) fleetTroubles() []trouble {
	var names []string
	for _, g := range v.snap.gateways {
		if g.Problem != "" && !g.Dead && g.Config != own(v.snap.gateways).Config {
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	title := fmt.Sprintf("Gateway %s runs another configuration", names[0])
	if len(names) > 1 {
		title = fmt.Sprintf("Gateways %s run other configurations", strings.Join(names, ", "))
	}
	return []trouble{{Word: "differs", Level: "warn", Title: title + " than " + own(v.snap.gateways).Name,
		Text:  "They share one ledger: an event is verified and routed as the gateway says that takes it, and sent as the one says that sends it. Give all the same file and reload them.",
		Short: "gateways differ", Due: "until they agree", Href: "/config", Act: "See config"}}
}

func own(all []Gateway) Gateway {
	for _, g := range all {
		if g.Own {
			return g
		}
	}
	return Gateway{}
}

// fleetFact is the gateways in one line.
func (v *view) fleetFact() string {
	var parts []string
	for _, g := range v.snap.gateways {
		s := g.Name
		if g.Own {
			s += " (this one)"
		}
		if g.Problem != "" {
			s += " " + g.Problem
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
