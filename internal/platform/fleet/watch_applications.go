package fleet

import (
	"context"
	"crypto/sha256"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// applicationKey names an application of the account.
type applicationKey struct{ runtimeID, namespace, name string }

// applicationView is a stream of applications. It keeps a sum of each that it has
// sent, because the states of all would be too much to keep for each stream.
type applicationView struct {
	fleet     *Fleet
	accountID string
	filter    store.ApplicationFilter
	stream    *connect.ServerStream[platformv1.WatchApplicationsResponse]
	known     map[applicationKey]sum
	reporters map[string]reporter
	said      bool
	// many is whether the caller takes several in one message; gathered are those
	// that wait for the next.
	many     bool
	gathered []*platformv1.Application
	size     int
}

// mostGathered bounds the bytes that wait for one message. One of usual size has some
// hundred applications; the first of them is shown long before the last is read.
const mostGathered = 128 << 10

type sum [sha256.Size]byte

// WatchApplications sends all applications, or those of a runtime, and then each
// that changes.
func (a applicationService) WatchApplications(ctx context.Context, request *connect.Request[platformv1.WatchApplicationsRequest], stream *connect.ServerStream[platformv1.WatchApplicationsResponse]) error {
	accountID, err := account(ctx)
	if err != nil {
		return err
	}
	filter, err := a.filter(ctx, accountID, &platformv1.ListApplicationsRequest{Runtime: request.Msg.GetRuntime()})
	if err != nil {
		return a.answer(err)
	}
	return a.watch(ctx, accountID, &applicationView{
		fleet: a.Fleet, accountID: accountID, filter: filter, stream: stream,
		known: map[applicationKey]sum{}, reporters: map[string]reporter{}, many: request.Msg.GetMany(),
	})
}

func (v *applicationView) send(message *platformv1.WatchApplicationsResponse) error {
	v.said = true
	return v.stream.Send(message)
}

// flush sends what was gathered.
func (v *applicationView) flush() error {
	if len(v.gathered) == 0 {
		return nil
	}
	err := v.send(&platformv1.WatchApplicationsResponse{Applications: v.gathered})
	v.gathered, v.size = nil, 0
	return err
}

func (v *applicationView) all(ctx context.Context) error { return v.refresh(ctx, v.filter) }

// refresh reads the applications of a filter, which may be one runtime's.
func (v *applicationView) refresh(ctx context.Context, filter store.ApplicationFilter) error {
	there := map[applicationKey]bool{}
	ages := staleness{fleet: v.fleet}
	page := store.Page{Size: store.MaxPageSize}
	for {
		applications, _, next, err := v.fleet.store.Applications(ctx, v.accountID, filter, page)
		if err != nil {
			return err
		}
		for _, application := range applications {
			there[applicationKey{application.RuntimeID, application.Namespace, application.Name}] = true
			if err := v.show(ctx, &ages, application); err != nil {
				return err
			}
		}
		if next == "" {
			break
		}
		page.Token = next
	}
	for key := range v.known {
		if !there[key] && (filter.RuntimeID == "" || filter.RuntimeID == key.runtimeID) {
			if err := v.gone(key); err != nil {
				return err
			}
		}
	}
	return v.flush()
}

func (v *applicationView) some(ctx context.Context, changes []store.Change) error {
	ages := staleness{fleet: v.fleet}
	whole := map[string]bool{}
	for _, change := range changes {
		if v.filter.RuntimeID != "" && change.ID != v.filter.RuntimeID {
			continue
		}
		// A runtime that changed may be gone, or back.
		if change.Kind == store.ChangeRuntime {
			from, err := ages.of(ctx, change.ID)
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
		if err := v.one(ctx, &ages, change); err != nil {
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

// one reads one application again.
func (v *applicationView) one(ctx context.Context, ages *staleness, change store.Change) error {
	application, err := v.fleet.store.Application(ctx, v.accountID, change.ID, store.ApplicationRef{Namespace: change.Namespace, Name: change.Name})
	if errors.Is(err, store.ErrNotFound) {
		return v.gone(applicationKey{change.ID, change.Namespace, change.Name})
	}
	if err != nil {
		return err
	}
	return v.show(ctx, ages, application)
}

// aged shows the applications of runtimes that went silent or finished a resync.
func (v *applicationView) aged(ctx context.Context) error {
	ages := staleness{fleet: v.fleet}
	for id, before := range v.reporters {
		from, err := ages.of(ctx, id)
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
			delete(v.reporters, id) // it was deleted
		} else {
			v.reporters[id] = from
		}
	}
	return nil
}

// show sends an application if something of it has changed.
func (v *applicationView) show(ctx context.Context, ages *staleness, application store.Application) error {
	message, err := ages.message(ctx, application)
	if err != nil {
		return err
	}
	v.reporters[application.RuntimeID] = ages.known[application.RuntimeID]
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return err
	}
	key := applicationKey{application.RuntimeID, application.Namespace, application.Name}
	fresh := sum(sha256.Sum256(text))
	if before, known := v.known[key]; known && before == fresh {
		return nil
	}
	v.known[key] = fresh
	if v.many {
		v.gathered, v.size = append(v.gathered, message), v.size+len(text)
		if v.size < mostGathered {
			return nil
		}
		return v.flush()
	}
	return v.send(&platformv1.WatchApplicationsResponse{Application: message})
}

func (v *applicationView) gone(key applicationKey) error {
	if _, known := v.known[key]; !known {
		return nil
	}
	delete(v.known, key)
	if err := v.flush(); err != nil { // in the order in which it was so
		return err
	}
	return v.send(&platformv1.WatchApplicationsResponse{Deleted: &platformv1.Application{
		Runtime: v.reporters[key.runtimeID].name, Namespace: key.namespace, Name: key.name,
	}})
}

func (v *applicationView) synced() error {
	return v.send(&platformv1.WatchApplicationsResponse{Synced: true})
}

func (v *applicationView) alive() error {
	return v.stream.Send(&platformv1.WatchApplicationsResponse{})
}

func (v *applicationView) sent() bool {
	said := v.said
	v.said = false
	return said
}
