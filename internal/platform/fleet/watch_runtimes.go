package fleet

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// runtimeView is a watch of runtimes.
type runtimeView struct {
	fleet     *Fleet
	accountID string
	caller    identity.Caller
	stream    *connect.ServerStream[platformv1.WatchRuntimesResponse]
	known     map[string]seenRuntime // by ID
	sentAny   bool
}

// seenRuntime is a runtime with the message that was sent for it.
type seenRuntime struct {
	runtime store.Runtime
	message *platformv1.Runtime
}

// WatchRuntimes sends all runtimes and then each one that changes.
func (r runtimeService) WatchRuntimes(ctx context.Context, _ *connect.Request[platformv1.WatchRuntimesRequest], stream *connect.ServerStream[platformv1.WatchRuntimesResponse]) error {
	accountID, err := account(ctx)
	if err != nil {
		return err
	}
	return r.watch(ctx, accountID, &runtimeView{
		fleet: r.Fleet, accountID: accountID, caller: callerOf(ctx), stream: stream, known: map[string]seenRuntime{},
	})
}

func (v *runtimeView) send(message *platformv1.WatchRuntimesResponse) error {
	v.sentAny = true
	return v.stream.Send(message)
}

// sendAll implements watchView.
func (v *runtimeView) sendAll(ctx context.Context) error {
	runtimes, err := v.fleet.allRuntimes(ctx, v.accountID)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, runtime := range runtimes {
		there[runtime.ID] = true
		if err := v.sendIfChanged(runtime); err != nil {
			return err
		}
	}
	for id := range v.known {
		if !there[id] {
			if err := v.sendDeleted(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendChanged implements watchView. A runtime of another account is ignored.
func (v *runtimeView) sendChanged(ctx context.Context, changes []store.Change) error {
	for _, change := range changes {
		if change.Kind != store.ChangeRuntime {
			continue
		}
		runtime, err := v.fleet.store.RuntimeByID(ctx, change.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			err = v.sendDeleted(change.ID)
		case err == nil && runtime.AccountID == v.accountID:
			err = v.sendIfChanged(runtime)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendExpired sends runtimes that went offline.
func (v *runtimeView) sendExpired(context.Context) error {
	for _, seen := range v.known {
		if seen.message.GetOnline() != v.fleet.online(seen.runtime) {
			if err := v.sendIfChanged(seen.runtime); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendIfChanged sends a runtime if its message differs from the last one. A
// new heartbeat time alone is not sent: it would be a message per runtime
// every few seconds.
func (v *runtimeView) sendIfChanged(runtime store.Runtime) error {
	message := v.fleet.messageFor(v.caller, runtime)
	before, known := v.known[runtime.ID]
	v.known[runtime.ID] = seenRuntime{runtime: runtime, message: message}
	if known {
		lastSent := proto.CloneOf(before.message)
		lastSent.LastHeartbeatAt = message.GetLastHeartbeatAt()
		if proto.Equal(lastSent, message) {
			return nil
		}
	}
	return v.send(&platformv1.WatchRuntimesResponse{Runtime: message})
}

// sendDeleted sends the deletion of a runtime that was sent before.
func (v *runtimeView) sendDeleted(id string) error {
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

func (v *runtimeView) keepAlive() error { return v.stream.Send(&platformv1.WatchRuntimesResponse{}) }

func (v *runtimeView) takeSent() bool {
	sentAny := v.sentAny
	v.sentAny = false
	return sentAny
}
