package appproxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// StreamApplications sends all Applications that the user may get: now, and each
// after a change. One that is deleted, or that the user may not get any more, is
// sent once more as deleted.
func (s *Service) StreamApplications(ctx context.Context, send func(*runtimev1.WatchApplicationResponse) error) error {
	looking, err := s.watch.join(tracking.App{})
	if err != nil {
		return err
	}
	defer s.watch.leave(looking)
	late := time.NewTimer(firstListTimeout)
	defer late.Stop()
	sent := map[tracking.App]string{} // resource versions
	for {
		select {
		case <-ctx.Done():
			return s.streamEnd(ctx)
		case <-late.C:
			if _, ready := s.watch.all(); !ready {
				return connect.NewError(connect.CodeUnavailable, errors.New("the API server of the cluster does not respond: try again later"))
			}
			continue
		case <-looking.signal:
		}
		objects, ready := s.watch.all()
		if !ready {
			continue
		}
		if err := s.sendChanges(ctx, objects, sent, send); err != nil {
			return err
		}
	}
}

// sendChanges sends what has another version than the one that was sent.
func (s *Service) sendChanges(ctx context.Context, objects map[tracking.App]*unstructured.Unstructured, sent map[tracking.App]string, send func(*runtimev1.WatchApplicationResponse) error) error {
	for place := range sent {
		if objects[place] == nil {
			delete(sent, place)
			if err := send(deletedApplication(place)); err != nil {
				return err
			}
		}
	}
	// The fixed order makes the first list the same for every client.
	places := slices.SortedFunc(maps.Keys(objects), func(a, b tracking.App) int { return cmp.Compare(a.String(), b.String()) })
	for _, place := range places {
		version := objects[place].GetResourceVersion()
		if sent[place] == version {
			continue
		}
		err := s.sendState(ctx, send, objects[place])
		switch {
		case connect.CodeOf(err) == connect.CodeNotFound:
			if _, shown := sent[place]; !shown {
				continue
			}
			delete(sent, place)
			err = send(deletedApplication(place))
		case err == nil:
			sent[place] = version
		}
		if err != nil {
			return s.toConnectError(err, place)
		}
	}
	return nil
}

// all returns the cached Applications. ready is false before the first list of
// each namespace.
func (w *sharedWatch) all() (objects map[tracking.App]*unstructured.Unstructured, ready bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.cached), len(w.listed) == len(w.namespaces)
}
