package shadow

import (
	"io"
	"net/http"
	"slices"
)

// Handler takes copies from the mirror of a controller: nginx's mirror, Traefik's mirroring
// and the edge's mirror. It responds at once and with nothing, because the controller drops
// the response.
func Handler(intake *Intake) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		intake.take(r)
		w.WriteHeader(http.StatusNoContent)
	})
}

// take makes a copy of a mirrored request. The request target is the one of the request
// line: a parsed URL has lost the spelling.
func (i *Intake) take(r *http.Request) {
	switch {
	case r.Header.Get(Marker) != "":
		i.Skip(SkipOwn)
		return
	case !slices.Contains(i.methods, r.Method):
		// Without reading a body that is not sent on.
		i.Skip(SkipMethod)
		return
	case r.Header.Get("Upgrade") != "":
		i.Skip(SkipUpgrade)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCopyBody+1))
	switch {
	case err != nil:
		i.Skip(SkipUnreadable)
		return
	case len(body) > maxCopyBody:
		i.Skip(SkipBody)
		return
	}
	copied := &Request{Method: r.Method, Host: r.Host, Target: r.RequestURI, Header: r.Header.Clone(), Body: body}
	copied.absolute()
	i.offer(r.Context(), copied)
}
