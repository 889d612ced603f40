package dedupe

// Acts are what the account keeps of a step that was applied, in order: one
// act for each moment of the key's life but the forwarding, whose time stands
// in the act of its conclusion. Of replays it is their number. Engines write
// them in the transaction of the step.
func (s *KeyStep) Acts() []Act {
	var out []Act
	if s.lapse && (s.Verdict == KeyClaimed || s.Verdict == KeyStuck || s.Verdict == KeyDone && s.Kind != StepSpool) {
		a := s.act(ActKeyed, MomentUnknown.String())
		a.Detail = WhyLease
		if s.Verdict == KeyClaimed {
			a.Number-- // of the claim before
		}
		out = append(out, a)
	}
	switch {
	case s.Verdict == KeyClaimed:
		a := s.act(ActKeyed, MomentClaimed.String())
		a.Hash, a.Detail = s.Record.Print, s.Record.Caller
		out = append(out, a)
	case s.Verdict == KeyDone && s.Kind != StepSpool:
		out = append(out, s.concluded())
	}
	return out
}

// act is what all acts of a key have in common.
func (s *KeyStep) act(kind ActKind, outcome string) Act {
	return Act{Kind: kind, Source: s.Record.Source, Target: s.Record.Target, ID: s.Record.ID, Number: s.Record.Token, Outcome: outcome}
}

// concluded is the act of what is not a claim.
func (s *KeyStep) concluded() Act {
	a := s.act(ActKeyed, "")
	a.Time, a.Detail, a.By = s.ForwardedAt, s.Detail, s.By
	if s.Answer != nil {
		a.Status, a.Hash, a.Bytes = s.Answer.Status, s.Answer.Hash, s.Answer.Length
	}
	switch s.Kind {
	case StepAnswer:
		a.Outcome = MomentAnswered.String()
	case StepRelease:
		a.Outcome = MomentReleased.String()
	case StepUnknown:
		a.Outcome = MomentUnknown.String()
	case StepReplayed:
		a.Outcome, a.Number = momentReplayed, s.Replays
	case StepSettle:
		a.Kind, a.Outcome = ActSettled, "done"
	case StepRetry:
		a.Kind, a.Outcome = ActSettled, momentRetry
	}
	return a
}

// ExpiredAct records that n keys were dropped because their windows had ended.
func ExpiredAct(n int) Act {
	return Act{Kind: ActKeyed, Outcome: momentExpired, Number: uint64(n)}
}
