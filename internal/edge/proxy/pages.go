package proxy

import (
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
)

const (
	// pageTimeout bounds getting a page: whoever sees it has waited already.
	pageTimeout = 3 * time.Second
	// pageBytes bounds a page.
	pageBytes = 1 << 20
)

// bodyFields are the headers that describe the body of an answer, and so go
// when a page takes its place. Content-Type is the page's.
var bodyFields = [...]string{
	"Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition", "Content-Range", "Content-MD5",
	"Content-Digest", "Repr-Digest", "Digest", "Accept-Ranges", "ETag", "Last-Modified", "Content-Type",
}

// pageFor gets the page for an error, nil when there is none or it cannot be
// had: the answer stays as it is then. HEAD has no body to replace.
func (c *client) pageFor(status int) *filter.Subresponse {
	if c.head.MethodID == h1.MethodHead {
		return nil
	}
	for i := len(c.x.Pages) - 1; i >= 0; i-- {
		pages := c.x.Pages[i]
		if !pages.Fits(status) {
			continue
		}
		reply, err := pages.Backend.Do(&filter.Subrequest{
			Method: "GET", Target: pages.Target(status), FallbackHost: normalize.View(c.head.URI.Authority),
			Fields: c.pageFields(), MaxResponse: pageBytes, Timeout: pageTimeout,
		})
		if err != nil {
			return nil
		}
		// Some servers of pages answer with the status of the error itself.
		if code := reply.Head.Status; reply.Truncated || len(reply.Body) == 0 || code/100 != 2 && code != status {
			reply.Close()
			return nil
		}
		return reply
	}
	return nil
}

// pageFields are what the server of pages may choose a page by.
func (c *client) pageFields() []filter.Field {
	fields := []filter.Field{
		{Name: "X-Forwarded-Host", Value: normalize.View(c.head.URI.Authority)},
		{Name: "X-Forwarded-Proto", Value: c.peer.Proto},
		{Name: "X-Forwarded-Uri", Value: string(c.head.URI.AppendTarget(nil))},
	}
	for _, name := range [...]string{"Accept", "Accept-Language"} {
		if value, ok := c.head.Find(name); ok {
			fields = append(fields, filter.Field{Name: name, Value: normalize.View(value)})
		}
	}
	return fields
}

// ownPage is an answer of the edge's own with its page.
func (c *client) ownPage(answer *filter.LocalResponse) *filter.LocalResponse {
	if answer.Status < 400 {
		return answer
	}
	page := c.pageFor(answer.Status)
	if page == nil {
		return answer
	}
	c.page = page
	return &filter.LocalResponse{
		Status: answer.Status, Reason: answer.Reason, Edits: append(c.pageEdits(), answer.Edits...), Body: page.Body,
	}
}

// pageEdits put what a page says of itself in the place of what the answer said
// of its body.
func (c *client) pageEdits() []h1.Edit {
	var edits []h1.Edit
	for _, name := range bodyFields {
		edit, err := h1.RemoveField(name)
		if value, ok := c.page.Head.Find(name); ok && (name == "Content-Type" || name == "Content-Encoding" || name == "Content-Language") {
			edit, err = h1.SetField(name, string(value))
		}
		if err == nil {
			edits = append(edits, edit)
		}
	}
	return edits
}

// passPage sends a page with the head of the answer that it takes the place of.
// It reports whether the endpoint's connection is at rest.
func (c *client) passPage(conn *upstream.Conn) (clean bool, err error) {
	c.reply.Edits = append(c.pageEdits(), c.x.ResponseEdits...)
	c.incoming = c.reply.AppendTo(c.incoming[:0], &c.response)
	c.record.Sent = int64(len(c.page.Body))
	if err = c.writer.Queue(c.incoming); err == nil {
		_, err = c.writer.Write(c.page.Body)
	}
	c.dropResponse(conn)
	return c.reusable, err
}
