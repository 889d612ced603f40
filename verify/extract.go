package verify

import "slices"

// reader takes events out of authentic requests.
type reader struct {
	id, typ  []composite
	batch    *batch // nil: one event a request
	max      int
	unquote  bool // the ID may be a quoted structured-field string
	mustJSON bool // the ID can be nowhere but in a JSON body
	usesJSON bool // ID or type may be in a JSON body
}

const detailTooDeep = "the body nests deeper than 512 levels"

// events fills in the events of an authentic request, or says why the body can't
// be taken.
func (rd *reader) events(x *exchange, res Result) Result {
	if rd.batch == nil || !rd.batch.when.hold(x) {
		return rd.one(x, res)
	}
	spans, found, reason, detail := rd.find(x)
	switch {
	case reason != OK:
		return spoil(res, reason, detail)
	case found:
		return rd.split(x, res, spans)
	case !rd.batch.Optional:
		return spoil(res, ReasonBodyMalformed, "the body does not hold the array of events")
	}
	return rd.one(x, res)
}

// find returns the places of the elements. Those of an array in a form field are
// places in the field.
func (rd *reader) find(x *exchange) (spans []span, found bool, reason Reason, detail string) {
	b := rd.batch
	tooMany := false
	add := func(s span) bool {
		if tooMany = len(spans) == rd.max; !tooMany {
			spans = append(spans, s)
		}
		return !tooMany
	}
	body := x.plainBody()
	switch {
	case b.form != "":
		x.inner, found = rd.formField(x)
		if found {
			found, _ = walk(x.inner, span{0, len(x.inner), 0, len(x.inner)}, []*arrayNode{{}}, add)
		}
	case b.xml != "":
		if ok := elementsXML(body, b.xml, func(start, end int) { add(span{start, end, 0, len(body)}) }); !ok {
			return nil, false, OK, ""
		}
		found = len(spans) > 0
	default:
		switch x.json() {
		case jsonTooDeep:
			return nil, false, ReasonBodyMalformed, detailTooDeep
		case jsonValid:
			found, _ = walk(body, span{0, len(body), 0, len(body)}, b.root, add)
		default:
			if b.Lines {
				var list []span
				if list, found = jsonLines(body); found {
					tooMany = len(list) > rd.max
					spans = list
				}
			}
		}
	}
	if tooMany {
		return nil, false, ReasonBatchTooLarge, "the batch has more elements than one request may bring"
	}
	return spans, found, OK, ""
}

// formField returns the JSON in the batch's form field.
func (rd *reader) formField(x *exchange) ([]byte, bool) {
	s, p := single(x.form()[rd.batch.form])
	if p != once || checkJSON([]byte(s)) != jsonValid {
		return nil, false
	}
	return []byte(s), true
}

// one takes the whole body as one event. A body that has to be JSON and is not is
// refused, except that an empty one simply has no ID.
func (rd *reader) one(x *exchange, res Result) Result {
	lenient := rd.batch != nil && rd.batch.Optional
	if rd.mustJSON && !lenient && len(x.plainBody()) > 0 {
		switch x.json() {
		case jsonTooDeep:
			return spoil(res, ReasonBodyMalformed, detailTooDeep)
		case jsonInvalid:
			return spoil(res, ReasonBodyMalformed, "the body is not JSON")
		}
	}
	var doc []byte
	if rd.usesJSON {
		doc = x.doc()
	}
	ev := rd.event(x, doc)
	ev.Length = len(x.req.Body)
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

// event takes ID and type from a document.
func (rd *reader) event(x *exchange, doc []byte) Event {
	return Event{ID: first(rd.id, x, doc, joinID), Type: first(rd.typ, x, doc, joinType)}
}

// split takes each element as an event, or all of them as one.
func (rd *reader) split(x *exchange, res Result, spans []span) Result {
	body := x.plainBody()
	if rd.batch.form != "" {
		body = x.inner
	}
	list := make([]Event, len(spans))
	for i, s := range spans {
		x.parent = body[s.parentStart:s.parentEnd]
		list[i] = rd.event(x, body[s.start:s.end])
		list[i].Offset, list[i].Length = s.start, s.end-s.start
	}
	x.parent = nil
	res.Events, res.Split = list, true
	// What is inside an encrypted body or a form has no place in the body.
	if (rd.batch.Whole || x.plain != nil) && len(list) > 0 {
		res.Events, res.Split = []Event{whole(list, len(x.req.Body))}, false
	}
	return res
}

// whole makes one event of many: its ID is made of all of theirs, and there is
// none where one is missing; its type is the one they share.
func whole(list []Event, length int) Event {
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.ID
	}
	out := Event{Type: list[0].Type, Length: length}
	if !slices.Contains(ids, "") {
		out.ID = JoinID(ids...)
	}
	for _, e := range list {
		if e.Type != out.Type {
			out.Type = ""
		}
	}
	return out
}

// spoil turns an authentic result into a refusal.
func spoil(res Result, r Reason, detail string) Result {
	res.Reason, res.Detail = r, detail
	res.Events, res.Split = nil, false
	return res
}
