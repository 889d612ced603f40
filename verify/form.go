package verify

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
)

// maxParts bounds the parts of a multipart form that are read.
const maxParts = 1000

// form returns the fields of a form body, nil for other bodies. A body with a
// field that can't be parsed has no fields at all.
func (x *exchange) form() url.Values {
	if x.haveForm {
		return x.formVals
	}
	x.haveForm = true
	if isForm(x.req) {
		if vals, err := url.ParseQuery(string(x.req.Body)); err == nil {
			x.formVals = vals
		}
		return x.formVals
	}
	if mt, params, err := mime.ParseMediaType(x.req.Header.Get("Content-Type")); err == nil && mt == "multipart/form-data" {
		x.formVals = readMultipart(x.req.Body, params["boundary"])
	}
	return x.formVals
}

// readMultipart returns the fields that are no files. All it holds is copied from
// the body, so that it is never larger.
func readMultipart(body []byte, boundary string) url.Values {
	if boundary == "" {
		return nil
	}
	vals := url.Values{}
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxParts {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return vals
		}
		if err != nil {
			return nil
		}
		if p.FormName() == "" || p.FileName() != "" {
			continue
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil
		}
		vals.Add(p.FormName(), string(b))
	}
	return nil
}

// isForm reports whether the request says that its body is a URL-encoded form.
func isForm(r *Request) bool {
	ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(ct), "application/x-www-form-urlencoded")
}
