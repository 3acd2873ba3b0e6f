package waf

import (
	"time"

	"github.com/corazawaf/coraza/v3/types"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

const (
	// heavyRequest is the size of head and body from which a request needs a turn to be
	// inspected. The Core Rule Set takes about a hundred milliseconds for it.
	heavyRequest = 16 << 10
	// turnTimeout bounds the wait for it.
	turnTimeout = 5 * time.Second
)

// The responses of a firewall that cannot inspect. It fails closed.
var (
	busy   = &filter.LocalResponse{Status: 503, Reason: "InspectionBusy"}
	failed = &filter.LocalResponse{Status: 500, Reason: "InspectionFailed"}

	tooLarge = &filter.LocalResponse{Status: 413, Reason: "BodyTooLarge"}
)

// inspector is the filter of a policy.
type inspector struct {
	compiler *Compiler
	set      *ruleSet
	idHeader string
}

// inspection is one request with its response.
type inspection struct {
	filter *inspector
	tx     types.Transaction
	local  filter.LocalResponse
	edits  [1]h1.Edit
	// broken is set after a panic of the engine, whose transaction is not used again.
	broken bool
	// skipped is set if the body of the request was too large to be inspected.
	skipped bool
}

// Slow implements [filter.SlowFilter].
func (f *inspector) Slow() {}

// Request implements [filter.Filter]: phases 1 and 2.
func (f *inspector) Request(x *filter.Exchange) *filter.LocalResponse {
	i := &inspection{filter: f, tx: f.begin(x)}
	x.Inspection = i
	size := headSize(x.Head)
	if size > heavyRequest {
		if !f.compiler.takeTurn() {
			return busy
		}
		defer f.compiler.endTurn()
	}
	if local := i.guarded(func() *types.Interruption { return i.requestHead(x) }); local != nil {
		return local
	}
	body, local := i.requestBody(x)
	if local != nil {
		return local
	}
	// The body has arrived: a slow client takes no turn from others.
	if size <= heavyRequest && body != nil && size+body.Size() > heavyRequest {
		if !f.compiler.takeTurn() {
			return busy
		}
		defer f.compiler.endTurn()
	}
	return i.guarded(func() *types.Interruption { return i.inspectBody(body, i.tx.WriteRequestBody, i.tx.ProcessRequestBody) })
}

// headSize is the number of bytes of a head that rules look at.
func headSize(head *h1.Head) int64 {
	size := len(head.Target())
	for line := range head.Len() {
		size += len(head.Name(line)) + len(head.Value(line))
	}
	return int64(size)
}

// begin starts a transaction. Its name comes from the header of the policy, if there is one.
func (f *inspector) begin(x *filter.Exchange) types.Transaction {
	if f.idHeader != "" {
		if id, ok := x.Head.Find(f.idHeader); ok && len(id) > 0 && len(id) <= 128 {
			return f.set.rules.NewTransactionWithID(string(id))
		}
	}
	return f.set.rules.NewTransaction()
}

// requestHead is phase 1. It passes on what the client sent, and not what is forwarded:
// the rules look for the spellings of attacks. All texts are copied, because the engine
// keeps them.
func (i *inspection) requestHead(x *filter.Exchange) *types.Interruption {
	head := x.Head
	i.tx.ProcessConnection(x.Client.Unmap().String(), 0, "", int(x.ServerPort))
	i.tx.ProcessURI(string(head.Target()), string(head.Method()), protocol(head.Minor))
	for line := range head.Len() {
		i.tx.AddRequestHeader(string(head.Name(line)), string(head.Value(line)))
	}
	i.tx.SetServerName(string(head.URI.Host))
	return i.tx.ProcessRequestHeaders()
}

// protocol is the version of HTTP. Requests of HTTP/2 and HTTP/3 come as HTTP/1.1.
func protocol(minor uint8) string {
	if minor == 0 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// requestBody reads the body into memory, if the rules want it.
func (i *inspection) requestBody(x *filter.Exchange) (filter.BufferedBody, *filter.LocalResponse) {
	set := i.filter.set
	if !i.tx.IsRequestBodyAccessible() || i.tx.IsRuleEngineOff() || x.Bufferer == nil {
		return nil, nil
	}
	limit := set.requestLimit
	contentType, _ := x.Head.Get(normalize.FieldContentType)
	boundary := boundaryOf(contentType)
	if boundary == "" {
		limit = min(limit, set.fieldsLimit)
	}
	if set.partial && x.Head.Framing == h1.Fixed && x.Head.Length > limit {
		i.skipped = true
		return nil, nil
	}
	body, local := x.Bufferer.BufferBody(limit)
	if local != nil || body == nil || boundary == "" || body.Size() <= set.fieldsLimit || fieldsWithin(body, boundary, set.fieldsLimit) {
		return body, local
	}
	if set.partial {
		i.skipped = true
		return nil, nil
	}
	return nil, tooLarge
}

// inspectBody passes a body to the engine, and evaluates the phase that follows it.
func (i *inspection) inspectBody(body filter.BufferedBody, write func([]byte) (*types.Interruption, int, error), process func() (*types.Interruption, error)) *types.Interruption {
	if body != nil {
		var interruption *types.Interruption
		err := body.Each(func(piece []byte) (err error) {
			if interruption == nil {
				interruption, _, err = write(piece)
			}
			return err
		})
		if err != nil {
			panic(err) // the body is in memory, so this is an error of the engine
		}
		if interruption != nil {
			return interruption
		}
	}
	interruption, err := process()
	if err != nil {
		panic(err)
	}
	return interruption
}

// ResponseHead implements [filter.Inspection]: phase 3.
func (i *inspection) ResponseHead(head *h1.ResponseHead) (*filter.LocalResponse, int64) {
	local := i.guarded(func() *types.Interruption {
		for line := range head.Len() {
			i.tx.AddResponseHeader(string(head.Name(line)), string(head.Value(line)))
		}
		return i.tx.ProcessResponseHeaders(head.Status, protocol(head.Minor))
	})
	if local != nil || i.tx.IsRuleEngineOff() {
		return local, 0
	}
	if !i.tx.IsResponseBodyAccessible() || !i.tx.IsResponseBodyProcessable() {
		return i.ResponseBody(nil), 0
	}
	return nil, i.filter.set.responseLimit
}

// ResponseBody implements [filter.Inspection]: phase 4.
func (i *inspection) ResponseBody(start filter.BufferedBody) *filter.LocalResponse {
	return i.guarded(func() *types.Interruption {
		return i.inspectBody(start, i.tx.WriteResponseBody, i.tx.ProcessResponseBody)
	})
}

// Done implements [filter.Finisher]: phase 5.
func (f *inspector) Done(x *filter.Exchange) {
	i, ok := x.Inspection.(*inspection)
	if !ok || i.broken {
		return
	}
	i.guarded(func() *types.Interruption {
		i.tx.ProcessLogging()
		return nil
	})
	if i.broken {
		return
	}
	outcome := Outcome{tx: i.tx, Denied: i.tx.IsInterrupted(), Skipped: i.skipped}
	f.compiler.log(x, &outcome)
	if observe := f.compiler.options.Observe; observe != nil {
		observe(&outcome)
	}
	_ = i.tx.Close() // it only removes files, and there are none
}

// guarded evaluates a phase and returns its local response. A panic of the engine ends
// the request and not the edge, whose other rules have nothing to do with it.
func (i *inspection) guarded(phase func() *types.Interruption) (local *filter.LocalResponse) {
	defer func() {
		if cause := recover(); cause != nil {
			i.broken = true
			i.filter.compiler.options.Log.Error("web application firewall failed, request refused", "error", cause)
			local = failed
		}
	}()
	if i.broken {
		return failed
	}
	return i.response(phase())
}

// response is what the client gets for an interruption.
func (i *inspection) response(interruption *types.Interruption) *filter.LocalResponse {
	if interruption == nil {
		return nil
	}
	i.local = filter.LocalResponse{Status: interruption.Status, Reason: "RequestDenied"}
	if interruption.Action == "redirect" {
		location, err := h1.SetField("Location", interruption.Data)
		if err == nil && interruption.Status/100 == 3 {
			i.edits[0] = location
			i.local.Edits = i.edits[:]
			return &i.local
		}
		i.local.Status = 403
	}
	if i.local.Status < 200 || i.local.Status > 599 {
		i.local.Status = 403
	}
	return &i.local
}

// takeTurn waits for one of the processors that inspect large bodies.
func (c *Compiler) takeTurn() bool {
	select {
	case c.large <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(turnTimeout)
	defer timer.Stop()
	select {
	case c.large <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (c *Compiler) endTurn() { <-c.large }
