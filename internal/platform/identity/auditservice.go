package identity

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// auditService implements AuditService.
type auditService struct{ *Identity }

// ListEntries lists the entries of the account, the newest first by default.
func (s auditService) ListEntries(ctx context.Context, request *connect.Request[platformv1.ListEntriesRequest]) (*connect.Response[platformv1.ListEntriesResponse], error) {
	caller, _ := CallerFrom(ctx)
	filter := store.AuditFilter{
		Since: timeOf(request.Msg.GetSince()), Until: timeOf(request.Msg.GetUntil()),
		Actor: request.Msg.GetActor(), Action: request.Msg.GetAction(), Target: request.Msg.GetTarget(), OldestFirst: request.Msg.GetOldestFirst(),
	}
	entries, next, err := s.store.AuditEntries(ctx, caller.Account.ID, filter, page(request.Msg))
	if err != nil {
		return nil, s.apiError(err)
	}
	response := &platformv1.ListEntriesResponse{NextPageToken: next}
	for _, entry := range entries {
		response.Entries = append(response.Entries, &platformv1.AuditEntry{
			Id: entry.ID, At: timestamppb.New(entry.At), Actor: entry.Actor, ActorKind: entry.ActorKind, Action: entry.Action,
			Target: entry.Target, Outcome: entry.Outcome, Detail: entry.Detail, Address: entry.Address, Code: entry.Code,
			UserId: entry.UserID, UserEmail: entry.UserEmail, KeyId: entry.KeyID,
			Runtime: entry.Runtime, Project: entry.Project, Application: entry.Application, Revision: entry.Revision,
		})
	}
	return connect.NewResponse(response), nil
}

// timeOf converts a timestamp of a request; an absent or invalid one is no
// bound.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}
