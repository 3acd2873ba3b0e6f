package argoapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// allLines requests all lines of a log, which the limits of package appproxy
// bound by bytes.
const allLines = -1

// logs sends the lines of an Application's containers, and an entry that is marked
// as the last one.
func (s *Service) logs(ctx context.Context, in argocd.Request, send func(any) error) error {
	if in.Has("sinceTime") || in.Text("untilTime") != "" {
		return notServed("logs by time are not served: use --since-seconds")
	}
	if _, err := s.application(ctx, in); err != nil {
		return err
	}
	objects, err := s.logObjects(ctx, in)
	if err != nil {
		return err
	}
	request := &runtimev1.LogsRequest{
		Ref: refOf(in), Objects: objects, Container: in.Text("container"), Follow: in.Flag("follow"), Previous: in.Flag("previous"), TailLines: in.Number("tailLines"),
	}
	if request.TailLines <= 0 {
		request.TailLines = allLines
	}
	if seconds := in.Number("sinceSeconds"); seconds > 0 {
		request.Since = durationpb.New(time.Duration(min(seconds, 1<<31)) * time.Second)
	}
	takes := lineFilter(in.Text("filter"), in.Flag("matchCase"))
	var last time.Time
	err = s.Applications.StreamLogs(ctx, request, func(line *runtimev1.LogsResponse) error {
		if !takes(line.GetLine()) {
			return nil
		}
		last = line.GetAt().AsTime()
		return send(entryOf(line.GetLine(), line.GetPod(), last, false))
	})
	if err != nil {
		return err
	}
	return send(entryOf("", "", last, true))
}

// entryOf is one entry of a log.
func entryOf(content, pod string, at time.Time, last bool) map[string]any {
	return map[string]any{
		"content": content, "podName": pod, "last": last, "timeStamp": at.UTC().Format(time.RFC3339), "timeStampStr": at.UTC().Format(time.RFC3339Nano),
	}
}

// lineFilter returns whether a filter takes a line: one that contains the text, or
// that does not if it begins with an exclamation mark.
func lineFilter(filter string, matchCase bool) func(line string) bool {
	wanted, inverse := strings.CutPrefix(filter, "!")
	if !matchCase {
		wanted = strings.ToLower(wanted)
	}
	return func(line string) bool {
		if !matchCase {
			line = strings.ToLower(line)
		}
		return filter == "" || strings.Contains(line, wanted) != inverse
	}
}

// logObjects returns the objects that a request selects; none are all. A request
// may name only a part of an object, such as its kind, so that they are looked up
// in the tree.
func (s *Service) logObjects(ctx context.Context, in argocd.Request) ([]*runtimev1.ObjectRef, error) {
	name, kind := in.Text("resourceName"), in.Text("kind")
	if pod := in.Text("podName"); pod != "" {
		name, kind = pod, "Pod"
	}
	if name == "" && kind == "" && in.Text("group") == "" && in.Text("namespace") == "" {
		return nil, nil
	}
	found, err := s.Applications.GetTree(ctx, connect.NewRequest(&runtimev1.GetTreeRequest{Ref: refOf(in)}))
	if err != nil {
		return nil, err
	}
	var objects []*runtimev1.ObjectRef
	for _, node := range found.Msg.GetNodes() {
		if selected(in, node.GetRef(), name) && (kind == "" || kind == node.GetRef().GetKind()) {
			objects = append(objects, node.GetRef())
		}
	}
	if len(objects) == 0 {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the Application has no such object: %s %s", kind, name))
	}
	return objects, nil
}
