package fleet

import (
	"context"
	"crypto/sha256"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// applicationKey identifies an application of the account.
type applicationKey struct{ runtimeID, namespace, name string }

// applicationView is a watch of applications. It keeps a checksum of each
// message, because keeping the messages themselves would cost too much memory
// per watch.
type applicationView struct {
	fleet     *Fleet
	accountID string
	caller    identity.Caller
	filter    store.ApplicationFilter
	stream    *connect.ServerStream[platformv1.WatchApplicationsResponse]
	known     map[applicationKey]sum
	reporters map[string]reporterStatus
	sentAny   bool
	// batched is set when the client accepts several applications per
	// message; batch holds those that wait for the next one.
	batched bool
	batch   []*platformv1.Application
	size    int
}

// maxBatchBytes bounds a batch. It fits some hundred applications, so the
// first ones are shown long before the last one is read.
const maxBatchBytes = 128 << 10

// firstPage is the size of the first page, which is sent before the second one is read: a client
// fills its screen with it.
const firstPage = 100

type sum [sha256.Size]byte

// WatchApplications sends all applications, or those of a runtime, and then
// each one that changes.
func (a applicationService) WatchApplications(ctx context.Context, request *connect.Request[platformv1.WatchApplicationsRequest], stream *connect.ServerStream[platformv1.WatchApplicationsResponse]) error {
	accountID, err := account(ctx)
	if err != nil {
		return err
	}
	filter, err := a.filter(ctx, accountID, &platformv1.ListApplicationsRequest{Runtime: request.Msg.GetRuntime()})
	if err != nil {
		return a.apiError(err)
	}
	return a.watch(ctx, accountID, &applicationView{
		fleet: a.Fleet, accountID: accountID, caller: callerOf(ctx), filter: filter, stream: stream,
		known: map[applicationKey]sum{}, reporters: map[string]reporterStatus{}, batched: request.Msg.GetMany(),
	})
}

// shown returns the conversion of applications for one update.
func (v *applicationView) shown() *shownApplications {
	return &shownApplications{fleet: v.fleet, caller: v.caller}
}

func (v *applicationView) send(message *platformv1.WatchApplicationsResponse) error {
	v.sentAny = true
	return v.stream.Send(message)
}

// flush sends the batch.
func (v *applicationView) flush() error {
	if len(v.batch) == 0 {
		return nil
	}
	err := v.send(&platformv1.WatchApplicationsResponse{Applications: v.batch})
	v.batch, v.size = nil, 0
	return err
}

func (v *applicationView) sendAll(ctx context.Context) error { return v.refresh(ctx, v.filter) }

// refresh reads the applications of a filter, which may be limited to one
// runtime, and sends changes and deletions.
func (v *applicationView) refresh(ctx context.Context, filter store.ApplicationFilter) error {
	// Pages are read one after the other, so memory stays bounded; the set of
	// keys finds deletions afterwards.
	there := map[applicationKey]bool{}
	shown := v.shown()
	page := store.Page{Size: firstPage}
	for {
		applications, _, next, err := v.fleet.store.Applications(ctx, v.accountID, filter, page)
		if err != nil {
			return err
		}
		for _, application := range applications {
			there[applicationKey{application.RuntimeID, application.Namespace, application.Name}] = true
			if err := v.sendIfChanged(ctx, shown, application); err != nil {
				return err
			}
		}
		if next == "" {
			break
		}
		if page.Token == "" {
			if err := v.flush(); err != nil {
				return err
			}
		}
		page = store.Page{Size: store.MaxPageSize, Token: next}
	}
	for key := range v.known {
		if !there[key] && (filter.RuntimeID == "" || filter.RuntimeID == key.runtimeID) {
			if err := v.sendDeleted(key); err != nil {
				return err
			}
		}
	}
	return v.flush()
}

// sendChanged implements watchView. A change without a name concerns all
// applications of a runtime; a changed runtime concerns them only if its
// status changed.
func (v *applicationView) sendChanged(ctx context.Context, changes []store.Change) error {
	shown := v.shown()
	// Runtimes that need a complete read are collected first, so that each is
	// read once.
	whole := map[string]bool{}
	for _, change := range changes {
		if v.filter.RuntimeID != "" && change.ID != v.filter.RuntimeID {
			continue
		}
		// The runtime may have been deleted, or have come online or gone
		// offline.
		if change.Kind == store.ChangeRuntime {
			from, err := shown.of(ctx, change.ID)
			if err != nil {
				return err
			}
			if before, known := v.reporters[change.ID]; !known || before == from {
				continue
			}
		} else if change.Kind != store.ChangeApplication {
			continue
		}
		if change.Name == "" {
			whole[change.ID] = true
			continue
		}
		if err := v.sendOne(ctx, shown, change); err != nil {
			return err
		}
	}
	for id := range whole {
		filter := v.filter
		filter.RuntimeID = id
		if err := v.refresh(ctx, filter); err != nil {
			return err
		}
	}
	return v.flush()
}

// sendOne reads one application again.
func (v *applicationView) sendOne(ctx context.Context, shown *shownApplications, change store.Change) error {
	application, err := v.fleet.store.Application(ctx, v.accountID, change.ID, store.ApplicationRef{Namespace: change.Namespace, Name: change.Name})
	if errors.Is(err, store.ErrNotFound) {
		return v.sendDeleted(applicationKey{change.ID, change.Namespace, change.Name})
	}
	if err != nil {
		return err
	}
	return v.sendIfChanged(ctx, shown, application)
}

// sendExpired sends the applications of runtimes that went offline or
// completed a resync.
func (v *applicationView) sendExpired(ctx context.Context) error {
	shown := v.shown()
	for id, before := range v.reporters {
		from, err := shown.of(ctx, id)
		if err != nil {
			return err
		}
		if from == before {
			continue
		}
		filter := v.filter
		filter.RuntimeID = id
		if err := v.refresh(ctx, filter); err != nil {
			return err
		}
		if from.name == "" {
			delete(v.reporters, id) // the runtime was deleted
		} else {
			v.reporters[id] = from
		}
	}
	return nil
}

// sendIfChanged sends an application if its checksum differs from the last
// one, and the caller may get it.
func (v *applicationView) sendIfChanged(ctx context.Context, shown *shownApplications, application store.Application) error {
	message, err := shown.message(ctx, application)
	if err != nil {
		return err
	}
	v.reporters[application.RuntimeID] = shown.known[application.RuntimeID]
	key := applicationKey{application.RuntimeID, application.Namespace, application.Name}
	// An application that the caller may not get any more is gone for them.
	if message == nil {
		return v.sendDeleted(key)
	}
	// The deterministic encoding makes checksums comparable.
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return err
	}
	fresh := sum(sha256.Sum256(text))
	if before, known := v.known[key]; known && before == fresh {
		return nil
	}
	v.known[key] = fresh
	if v.batched {
		v.batch, v.size = append(v.batch, message), v.size+len(text)
		if v.size < maxBatchBytes {
			return nil
		}
		return v.flush()
	}
	return v.send(&platformv1.WatchApplicationsResponse{Application: message})
}

// sendDeleted sends the deletion of an application that was sent before.
func (v *applicationView) sendDeleted(key applicationKey) error {
	if _, known := v.known[key]; !known {
		return nil
	}
	delete(v.known, key)
	if err := v.flush(); err != nil { // keeps the order of events
		return err
	}
	return v.send(&platformv1.WatchApplicationsResponse{Deleted: &platformv1.Application{
		Runtime: v.reporters[key.runtimeID].name, Namespace: key.namespace, Name: key.name,
	}})
}

func (v *applicationView) synced() error {
	return v.send(&platformv1.WatchApplicationsResponse{Synced: true})
}

func (v *applicationView) keepAlive() error {
	return v.stream.Send(&platformv1.WatchApplicationsResponse{})
}

func (v *applicationView) takeSent() bool {
	sentAny := v.sentAny
	v.sentAny = false
	return sentAny
}
