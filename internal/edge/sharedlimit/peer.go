package sharedlimit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/sharedtls"
)

const (
	// sendTimeout bounds a message to another replica. One that is late is still
	// charged, so it is longer than a period.
	sendTimeout = time.Second
	// maxPending bounds the entries that wait for a slow replica.
	maxPending = 4 * MaxEntries
)

// peer sends to one address of a replica.
type peer struct {
	address  string
	exchange *Exchange
	client   *http.Client
	ctx      context.Context
	stop     context.CancelFunc
	// identity is that of the replica at the address, 0 before its first response.
	identity atomic.Uint64
	failing  bool

	mu      sync.Mutex
	pending []Entry
}

func newPeer(ctx context.Context, address string, e *Exchange) (*peer, error) {
	config, err := sharedtls.Client(e.options.Secret, purpose)
	if err != nil {
		return nil, err
	}
	p := &peer{address: address, exchange: e}
	p.client = &http.Client{
		Timeout:       sendTimeout,
		Transport:     &http.Transport{TLSClientConfig: config, MaxConnsPerHost: 1, DisableCompression: true, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	p.ctx, p.stop = context.WithCancel(ctx)
	return p, nil
}

// add queues entries, and returns how many had no room.
func (p *peer) add(entries []Entry) (dropped int) {
	if p.identity.Load() == p.exchange.id {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending)+len(entries) > maxPending {
		return len(entries)
	}
	p.pending = append(p.pending, entries...)
	return 0
}

// take takes the entries of the next message.
func (p *peer) take() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	entries := p.pending[:min(len(p.pending), MaxEntries)]
	p.pending = append([]Entry(nil), p.pending[len(entries):]...)
	return entries
}

// run sends what is queued once per period. An empty message shows that this replica
// is alive. What could not be sent is dropped: it may have been charged, and charging
// it twice would refuse requests.
func (p *peer) run() {
	defer p.client.CloseIdleConnections()
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		err := p.send(p.take())
		switch {
		case err == nil && p.identity.Load() == p.exchange.id:
			return // the replica itself
		case err == nil:
			p.exchange.stats.sent.Add(1)
			p.failing = false
		case p.ctx.Err() != nil:
			return
		default:
			p.exchange.stats.failed.Add(1)
			if !p.failing {
				p.exchange.options.Log.Warn("a replica does not take part in limits", observe.KeyAddress, p.address, observe.KeyError, err)
			}
			p.failing = true
		}
	}
}

func (p *peer) send(entries []Entry) error {
	m := message{sender: p.exchange.id, entries: entries}
	request, err := http.NewRequestWithContext(p.ctx, http.MethodPost, "https://"+p.address+path, bytes.NewReader(m.appendTo(nil)))
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64))
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", response.StatusCode)
	case len(text) != 8:
		return errors.New("the response is none of a replica")
	}
	id := binary.BigEndian.Uint64(text)
	p.identity.Store(id)
	p.exchange.hear(id)
	return nil
}
