package proxy

import (
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

const (
	// pageTimeout bounds fetching a page: the client has waited already.
	pageTimeout = 3 * time.Second
	// pageBytes bounds a page.
	pageBytes = 1 << 20
)

// bodyFields are the headers that describe the body of a response, and so are
// removed when a page takes its place. Content-Type is the page's.
var bodyFields = [...]string{
	"Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition", "Content-Range", "Content-MD5",
	"Content-Digest", "Repr-Digest", "Digest", "Accept-Ranges", "ETag", "Last-Modified", "Content-Type",
}

// fetchPage fetches the page for an error status. It returns nil when there is
// none or it cannot be had: the response stays as it is then. HEAD has no body
// to replace.
func (x *exchange) fetchPage(status int) *filter.Subresponse {
	head := &x.conn.head
	if head.MethodID == h1.MethodHead {
		return nil
	}
	for i := len(x.filters.Pages) - 1; i >= 0; i-- {
		pages := x.filters.Pages[i]
		if !pages.Fits(status) {
			continue
		}
		page, err := pages.Backend.Do(&filter.Subrequest{
			Method: "GET", Target: pages.Target(status), FallbackHost: normalize.View(head.URI.Authority),
			Fields: append(x.pageFields(status), pages.Fields...), MaxResponse: pageBytes, Timeout: pageTimeout,
		})
		if err != nil {
			return nil
		}
		// Some servers of pages respond with the status of the error itself.
		if code := page.Head.Status; page.Truncated || len(page.Body) == 0 || code/100 != 2 && code != status {
			page.Close()
			return nil
		}
		return page
	}
	return nil
}

// pageFields are the headers by which the server of pages may choose a page. Those of
// ingress-nginx are X-Code, X-Format and X-Original-URI.
func (x *exchange) pageFields(status int) []filter.Field {
	c := x.conn
	target := string(c.head.URI.AppendTarget(nil))
	fields := []filter.Field{
		{Name: "X-Code", Value: strconv.Itoa(status)},
		{Name: "X-Original-URI", Value: target},
		{Name: "X-Forwarded-Host", Value: normalize.View(c.head.URI.Authority)},
		{Name: "X-Forwarded-Proto", Value: c.peer.Proto},
		{Name: "X-Forwarded-Uri", Value: target},
	}
	if value, ok := c.head.Find("Accept"); ok {
		fields = append(fields, filter.Field{Name: "X-Format", Value: normalize.View(value)})
	}
	for _, name := range [...]string{"Accept", "Accept-Language"} {
		if value, ok := c.head.Find(name); ok {
			fields = append(fields, filter.Field{Name: name, Value: normalize.View(value)})
		}
	}
	for i := range c.head.Len() {
		if c.head.ID(i) == normalize.FieldCDNLoop {
			fields = append(fields, filter.Field{Name: hopField, Value: normalize.View(c.head.Value(i))})
		}
	}
	return fields
}

// localPage returns a local response with its page in place of its body.
func (x *exchange) localPage(local *filter.LocalResponse) *filter.LocalResponse {
	if local.Status < 400 {
		return local
	}
	page := x.fetchPage(local.Status)
	if page == nil {
		return local
	}
	x.page = page
	return &filter.LocalResponse{
		Status: local.Status, Reason: local.Reason, Edits: append(x.pageEdits(), local.Edits...), Body: page.Body,
	}
}

// pageEdits replace the headers about the response's body with those of the page.
func (x *exchange) pageEdits() []h1.Edit {
	var edits []h1.Edit
	for _, name := range bodyFields {
		edit, err := h1.RemoveField(name)
		if value, ok := x.page.Head.Find(name); ok && (name == "Content-Type" || name == "Content-Encoding" || name == "Content-Language") {
			edit, err = h1.SetField(name, string(value))
		}
		if err == nil {
			edits = append(edits, edit)
		}
	}
	return edits
}

// copyPage sends a page with the head of the response whose body it replaces. It
// reports whether the endpoint's connection can be used again.
func (a *attempt) copyPage() (clean bool, err error) {
	x, c := a.x, a.x.conn
	a.plan.Edits = append(x.pageEdits(), x.filters.ResponseEdits...)
	c.buffers.responseHead = a.plan.AppendTo(c.buffers.responseHead[:0], &c.buffers.response)
	x.record.Sent = int64(len(x.page.Body))
	if err = c.writer.Queue(c.buffers.responseHead); err == nil {
		_, err = c.writer.Write(x.page.Body)
	}
	a.dropResponse()
	return a.reusable, err
}
