package fleet

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// runtimeView is a stream of runtimes.
type runtimeView struct {
	fleet     *Fleet
	accountID string
	stream    *connect.ServerStream[platformv1.WatchRuntimesResponse]
	known     map[string]seenRuntime // by ID
	said      bool
}

// seenRuntime is a runtime and what was sent of it.
type seenRuntime struct {
	runtime store.Runtime
	message *platformv1.Runtime
}

// WatchRuntimes sends all runtimes, and then each that changes.
func (r runtimeService) WatchRuntimes(ctx context.Context, _ *connect.Request[platformv1.WatchRuntimesRequest], stream *connect.ServerStream[platformv1.WatchRuntimesResponse]) error {
	accountID, err := account(ctx)
	if err != nil {
		return err
	}
	return r.watch(ctx, accountID, &runtimeView{
		fleet: r.Fleet, accountID: accountID, stream: stream, known: map[string]seenRuntime{},
	})
}

func (v *runtimeView) send(message *platformv1.WatchRuntimesResponse) error {
	v.said = true
	return v.stream.Send(message)
}

func (v *runtimeView) all(ctx context.Context) error {
	runtimes, err := v.fleet.all(ctx, v.accountID)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, runtime := range runtimes {
		there[runtime.ID] = true
		if err := v.show(runtime); err != nil {
			return err
		}
	}
	for id := range v.known {
		if !there[id] {
			if err := v.gone(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *runtimeView) some(ctx context.Context, changes []store.Change) error {
	for _, change := range changes {
		if change.Kind != store.ChangeRuntime {
			continue
		}
		runtime, err := v.fleet.store.RuntimeByID(ctx, change.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			err = v.gone(change.ID)
		case err == nil && runtime.AccountID == v.accountID:
			err = v.show(runtime)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// aged shows runtimes that went silent.
func (v *runtimeView) aged(context.Context) error {
	for _, seen := range v.known {
		if seen.message.GetOnline() != v.fleet.online(seen.runtime) {
			if err := v.show(seen.runtime); err != nil {
				return err
			}
		}
	}
	return nil
}

// show sends a runtime if something of it has changed. A sign of life alone is not
// worth a message.
func (v *runtimeView) show(runtime store.Runtime) error {
	message := v.fleet.message(runtime)
	before, known := v.known[runtime.ID]
	v.known[runtime.ID] = seenRuntime{runtime: runtime, message: message}
	if known {
		quiet := proto.CloneOf(before.message)
		quiet.LastHeartbeatAt = message.GetLastHeartbeatAt()
		if proto.Equal(quiet, message) {
			return nil
		}
	}
	return v.send(&platformv1.WatchRuntimesResponse{Runtime: message})
}

func (v *runtimeView) gone(id string) error {
	seen, known := v.known[id]
	if !known {
		return nil
	}
	delete(v.known, id)
	return v.send(&platformv1.WatchRuntimesResponse{Deleted: seen.runtime.Name})
}

func (v *runtimeView) synced() error {
	return v.send(&platformv1.WatchRuntimesResponse{Synced: true})
}

func (v *runtimeView) alive() error { return v.stream.Send(&platformv1.WatchRuntimesResponse{}) }

func (v *runtimeView) sent() bool {
	said := v.said
	v.said = false
	return said
}
