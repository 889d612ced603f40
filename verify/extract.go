package verify

// reader takes events out of authentic requests.
type reader struct {
	id, typ  []composite
	batch    *Batch // nil: one event a request
	max      int
	unquote  bool // the ID may be a quoted structured-field string
	mustJSON bool // the ID can be nowhere but in a JSON body
	usesJSON bool // ID or type may be in a JSON body
}

// events fills in the events of an authentic request, or says why the body can't
// be taken.
func (rd *reader) events(x *exchange, res Result) Result {
	if rd.batch != nil {
		if state := x.json(); state == jsonTooDeep {
			return spoil(res, ReasonBodyMalformed, "the body nests deeper than 512 levels")
		} else if state == jsonValid {
			if i := rd.batch.array(x.req.Body); i >= 0 {
				return rd.split(x, res, i)
			}
		}
		if !rd.batch.Optional {
			return spoil(res, ReasonBodyMalformed, "the body does not hold the array of events")
		}
	}
	return rd.one(x, res)
}

// one takes the whole body as one event. A body that has to be JSON and is not is
// refused, except that an empty one simply has no ID.
func (rd *reader) one(x *exchange, res Result) Result {
	lenient := rd.batch != nil && rd.batch.Optional
	if rd.mustJSON && !lenient && len(x.req.Body) > 0 {
		switch x.json() {
		case jsonTooDeep:
			return spoil(res, ReasonBodyMalformed, "the body nests deeper than 512 levels")
		case jsonInvalid:
			return spoil(res, ReasonBodyMalformed, "the body is not JSON")
		}
	}
	var doc []byte
	if rd.usesJSON {
		doc = x.doc()
	}
	ev := Event{ID: first(rd.id, x, doc), Type: first(rd.typ, x, doc), Length: len(x.req.Body)}
	if rd.unquote {
		id, err := unquoteKey(ev.ID)
		if err != nil {
			id = "" // what can't be read is no ID
		}
		ev.ID = id
	}
	res.Events = []Event{ev}
	return res
}

// split takes each element of the array at i as an event.
func (rd *reader) split(x *exchange, res Result, i int) Result {
	body := x.req.Body
	res.Events, res.Split = []Event{}, true
	tooMany := false
	elements(body, i, func(start, end int) bool {
		if len(res.Events) == rd.max {
			tooMany = true
			return false
		}
		doc := body[start:end]
		res.Events = append(res.Events, Event{ID: first(rd.id, x, doc), Type: first(rd.typ, x, doc), Offset: start, Length: end - start})
		return true
	})
	if tooMany {
		return spoil(res, ReasonBatchTooLarge, "the batch has more elements than one request may bring")
	}
	return res
}

// spoil turns an authentic result into a refusal.
func spoil(res Result, r Reason, detail string) Result {
	res.Reason, res.Detail = r, detail
	res.Events, res.Split = nil, false
	return res
}
