package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// change is the audit entry of a forwarded change. What was requested is read
// from the request, so that a runtime cannot misreport it; the project is the
// one that the runtime reported before.
type change struct {
	*decoder
	event identity.Event
	// response is what the runtime sent. Without it, cause is the error of the
	// gateway or its transport, and failure that which the caller gets.
	response       *recording
	cause, failure error
}

// beginChange reads the message of a change and records a change by an admin
// before it is sent. It does nothing for requests that are not audited; the
// workflow server has its own audit log.
func (q *request) beginChange(w http.ResponseWriter, r *http.Request) error {
	decoder := decoders()[q.procedure]
	if decoder == nil {
		return nil
	}
	body, err := q.readChange(w, r)
	if err != nil {
		return err
	}
	message := q.decode(decoder, r, body)
	if message == nil {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the request has no valid message of %s", strings.TrimPrefix(q.procedure, "/")))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	if changes, err := q.changes(r.Context(), message); !changes || err != nil {
		return err
	}
	event, application := q.requested(r.Context(), message.ProtoReflect())
	if err := q.authoriseChange(r.Context(), event, application, text(message.ProtoReflect(), "revision")); err != nil {
		return err
	}
	q.change = &change{decoder: decoder, event: event}
	if q.rule.Permission == permission.Admin {
		begun := q.change.event
		begun.Outcome = identity.OutcomeBegun
		return q.gateway.Identity.Record(r.Context(), q.caller, begun)
	}
	return nil
}

// readChange reads the body within the timeout of a unary request: the object
// must be known before anything is sent.
func (q *request) readChange(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(q.gateway.Limits.Unary)) // writers of tests do not support it
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChange))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, statusError{http.StatusRequestEntityTooLarge, "the request is too large"}
	}
	if err != nil {
		return nil, statusError{http.StatusBadRequest, "the request is incomplete"}
	}
	// A deadline that expires later would look like a client that is gone.
	_ = control.SetReadDeadline(time.Time{})
	return body, nil
}

// requested returns the event of a request: its object, and the options that
// are set. The application is nil if there is none, or none was reported.
func (q *request) requested(ctx context.Context, message protoreflect.Message) (event identity.Event, application *platformv1.Application) {
	event = q.event()
	event.Detail = strings.Join(setOptions(message), ", ")
	// An approval of a promotion is one for an environment.
	event.Detail = cmp.Or(event.Detail, text(message, "environment"))
	name := ""
	if named := q.named(message); named.Name != "" || child(message, "ref") != nil {
		if named.Namespace == "" {
			named.Namespace = q.runtime.Namespace
		}
		name = named.Namespace + "/" + named.Name
		event.Application = name
		application = q.reported(ctx, named)
		event.Project, event.Revision = application.GetProject(), application.GetTargetRevision()
	}
	// The other objects are the request itself, or its field of this name.
	for _, object := range []protoreflect.Message{message, child(message, "git_source"), child(message, "integration")} {
		if object == nil {
			continue
		}
		name = cmp.Or(name, text(object, "name"), text(object, "integration"), withoutUser(text(object, "server")), text(object, "product"))
		event.Revision = cmp.Or(text(object, "revision"), event.Revision)
		event.Project = cmp.Or(text(object, "project"), event.Project)
	}
	if noun, _, _ := strings.Cut(event.Action, "."); name != "" {
		event.Target = noun + "/" + name
	}
	return event, application
}

// named returns the Application that a message names; the name is empty if there
// is none.
func (q *request) named(message protoreflect.Message) store.ApplicationRef {
	if q.argo != nil {
		namespace, name := argocd.Request{Message: message}.Application()
		return store.ApplicationRef{Namespace: namespace, Name: name}
	}
	ref := child(message, "ref")
	if ref == nil {
		return store.ApplicationRef{}
	}
	return store.ApplicationRef{Namespace: text(ref, "namespace"), Name: text(ref, "name")}
}

// reported returns an application as its runtime last reported it, or nil.
func (q *request) reported(ctx context.Context, ref store.ApplicationRef) *platformv1.Application {
	row, err := q.gateway.Store.Application(ctx, q.runtime.AccountID, q.runtime.ID, ref)
	state := &platformv1.Application{}
	if err != nil || proto.Unmarshal(row.State, state) != nil {
		return nil
	}
	return state
}

// setOptions returns the names of the flags that a request sets, such as prune
// and dry_run. Only flags: other fields may be secrets.
func setOptions(message protoreflect.Message) (names []string) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.Kind() == protoreflect.BoolKind && !field.IsList() && message.Get(field).Bool() {
			names = append(names, string(field.Name()))
		}
	}
	return names
}

// child returns a message field, or nil.
func child(message protoreflect.Message, name protoreflect.Name) protoreflect.Message {
	field := message.Descriptor().Fields().ByName(name)
	if field == nil || field.Message() == nil || field.IsList() || field.IsMap() || !message.Has(field) {
		return nil
	}
	return message.Get(field).Message()
}

// text returns a string field, or nothing.
func text(message protoreflect.Message, name protoreflect.Name) string {
	field := message.Descriptor().Fields().ByName(name)
	if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
		return ""
	}
	return message.Get(field).String()
}

// withoutUser removes user and password from a URL.
func withoutUser(value string) string {
	if u, err := url.Parse(value); err == nil && u.User != nil {
		u.User = nil
		return u.String()
	}
	return value
}

// endChange records how a change ended. It runs also when the proxy panics,
// which it does for a caller that closes the connection in the middle of a
// response.
func (q *request) endChange(ctx context.Context) {
	if q.change == nil {
		return
	}
	event := q.change.event
	event.Outcome, event.Code = q.result(&event)
	_ = q.gateway.Identity.Record(ctx, q.caller, event) // the response is sent, and the log has the failure
}

// result returns outcome and code of a change, and adds the revision that the
// runtime responded with.
func (q *request) result(event *identity.Event) (outcome, code string) {
	c := q.change
	if c.failure != nil {
		return outcomeOf(c.cause), q.codeOf(c.failure).String()
	}
	if c.response == nil {
		return identity.OutcomeUnknown, connect.CodeUnknown.String()
	}
	response, complete := c.response.complete()
	if q.argo != nil && q.argo.rest {
		return resultOfREST(response.StatusCode, complete)
	}
	message, err := c.decoder.response(response)
	switch {
	case err == nil && complete:
		reply := message.ProtoReflect()
		event.Revision = cmp.Or(text(reply, "commit"), text(reply, "revision"), event.Revision)
		return identity.OutcomeOK, identity.CodeOK
	case err == nil || !connect.IsWireError(err) && response.StatusCode == http.StatusOK:
		return identity.OutcomeUnknown, connect.CodeUnknown.String()
	}
	switch code := connect.CodeOf(err); code {
	case connect.CodePermissionDenied, connect.CodeUnauthenticated:
		return identity.OutcomeDenied, code.String()
	default:
		return identity.OutcomeFailed, code.String()
	}
}

// outcomeOf returns the outcome of a request without a response: it failed if
// it cannot have reached the runtime.
func outcomeOf(cause error) string {
	_, offline := errors.AsType[*hub.OfflineError](cause)
	_, busy := errors.AsType[*hub.BusyError](cause)
	_, refused := errors.AsType[*refusal.Refusal](cause)
	_, ours := errors.AsType[*connect.Error](cause)
	if offline || busy || refused || ours || errors.Is(cause, errNotRouter) {
		return identity.OutcomeFailed
	}
	return identity.OutcomeUnknown
}

// codeOf returns the code of the error that the caller gets.
func (q *request) codeOf(err error) connect.Code {
	if plain, ok := errors.AsType[statusError](err); ok {
		return codeOf(plain.status)
	}
	return q.gateway.connectError(err).Code()
}
