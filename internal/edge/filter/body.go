package filter

import (
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// tooLarge is the response to a body that is over the limit. It is shared and never
// changes.
var tooLarge = &LocalResponse{Status: 413, Reason: "BodyTooLarge"}

// bodyLimit bounds the bodies of requests.
type bodyLimit struct{ most int64 }

func newBodyLimit(a *route.BodyLimit) (*bodyLimit, error) {
	if a.MaxBytes < 0 {
		return nil, invalid("maxBytes", "%d is less than 0", a.MaxBytes)
	}
	return &bodyLimit{most: a.MaxBytes}, nil
}

// Request implements [Filter]. A body of unknown length is bounded while it passes;
// where none is allowed it is refused at once, because a MaxBody of 0 means no
// bound.
func (f *bodyLimit) Request(x *Exchange) *LocalResponse {
	switch x.Head.Framing {
	case h1.NoBody:
		return nil
	case h1.Fixed:
		if x.Head.Length > f.most {
			return tooLarge
		}
	default:
		if f.most == 0 {
			return tooLarge
		}
	}
	if f.most > 0 && (x.MaxBody == 0 || x.MaxBody > f.most) {
		x.MaxBody = f.most
	}
	return nil
}
