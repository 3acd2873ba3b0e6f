package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// leastSetTime is how long an ApplicationSet may take at least: it includes
// fetches of repositories.
const leastSetTime = time.Minute

// Generate makes the Applications of an ApplicationSet in a worker, and passes
// each to take, as JSON. After an error what take got is not complete. The set
// is the object as the API server has it.
func (r *Renderer) Generate(ctx context.Context, set map[string]any, facts generate.Facts, take func([]byte) error) error {
	text, err := json.Marshal(set)
	if err != nil {
		return err
	}
	// One with parameters is a name as good as any: sets that have it take turns.
	project, _, _ := unstructured.NestedString(set, "spec", "template", "spec", "project")
	if err := waitForSlot(ctx, r.inputSlots, project); err != nil {
		return err
	}
	defer r.inputSlots.Release(project)
	_, err = r.attempt(ctx, func() task { return &setTask{ctx: ctx, set: text, facts: facts, take: take} })
	if problem, ok := errors.AsType[*Error](err); ok {
		problem.Source = -1 // trees have numbers that mean nothing to users
	}
	return err
}

// setTask makes the Applications of one set.
type setTask struct {
	// ctx is that of the call, for Facts.
	ctx   context.Context
	set   []byte
	facts generate.Facts
	take  func([]byte) error
	// trees are the repositories that the worker has requested.
	trees []setFiles
	// err is the error of take.
	err error
}

// job has the set without status and other metadata.
func (t *setTask) job() *job.Job { return &job.Job{Set: t.set} }

// limits has the limits of a render, but for the time.
func (t *setTask) limits(options *Options) limits {
	return limits{time: max(options.Timeout, leastSetTime), bytes: options.OutputBytes}
}

// wording names the options of the agent: the set belongs to no Application.
func (t *setTask) wording() wording {
	return wording{
		activity: "generating the Applications",
		slow:     "use several ApplicationSets, look for slow repositories, or raise render.timeout of the agent",
		memory:   "make the files that the generators read smaller, or raise render.memoryLimit of the agent",
	}
}

// message serves facts and files, and takes Applications.
func (t *setTask) message(s *session, kind frame.Type, payload []byte) *Error {
	switch kind {
	case frame.Fleet:
		return t.clusters(s, payload)
	case frame.Tree:
		return t.open(s, payload)
	case frame.Fetch:
		return t.fetch(s, payload)
	case frame.Stat, frame.Read, frame.List:
		return serveFile(s, t.trees, kind, payload)
	case frame.Object:
		if !s.output(payload) || !manifest.WithinValues(payload) {
			s.worker.kill()
			return t.tooLarge(s)
		}
		if t.err = t.take(payload); t.err != nil {
			s.worker.kill()
			return &Error{Kind: Failed}
		}
		return nil
	}
	return s.unexpected(kind)
}

// clusters responds with clusters.
func (t *setTask) clusters(s *session, payload []byte) *Error {
	var wanted frame.FleetRequest
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return s.workerDied(err)
	}
	selector, err := labels.Parse(wanted.Selector)
	if err != nil {
		return s.workerDied(err)
	}
	found, err := t.facts.Clusters(t.ctx, selector)
	return t.respond(s, found, err)
}

// fetch responds with the input of a generator.
func (t *setTask) fetch(s *session, payload []byte) *Error {
	var wanted frame.FetchRequest
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return s.workerDied(err)
	}
	var found any
	var err error
	switch {
	case wanted.SCMProvider != nil:
		found, err = t.facts.Repositories(t.ctx, wanted.SCMProvider)
	case wanted.PullRequest != nil:
		found, err = t.facts.PullRequests(t.ctx, wanted.PullRequest)
	case wanted.Plugin != nil:
		found, err = t.facts.Plugin(t.ctx, wanted.Set, wanted.Plugin)
	case wanted.Decision != nil:
		found, err = t.facts.Decisions(t.ctx, wanted.Decision)
	default:
		return s.workerDied(errors.New("a request for nothing"))
	}
	return t.respond(s, found, err)
}

// open responds with the number of a tree.
func (t *setTask) open(s *session, payload []byte) *Error {
	var wanted frame.TreeRequest
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return s.workerDied(err)
	}
	store, commit, err := t.facts.Tree(t.ctx, wanted.RepoURL, wanted.Revision)
	if err == nil {
		t.trees = append(t.trees, setFiles{store})
	}
	return t.respond(s, frame.OpenedTree{Source: len(t.trees) - 1, Commit: commit}, err)
}

// respond sends facts, or why there are none.
func (t *setTask) respond(s *session, facts any, err error) *Error {
	return s.respond(func(writer *frame.Writer) error {
		if err != nil {
			return writer.SendJSON(frame.Refused, refusal.New("", refusal.Unreadable, "%s", err.Error()))
		}
		return writer.SendJSON(frame.Facts, facts)
	})
}

// tooLarge is the error of a set that exceeds the output limit.
func (t *setTask) tooLarge(s *session) *Error {
	return &Error{Kind: TooLarge, Message: fmt.Sprintf("the Applications are larger than %d bytes together: "+
		"use several ApplicationSets, or raise render.outputLimit of the agent", s.limit.bytes)}
}

// done has nothing to add.
func (t *setTask) done(*session, *frame.Report) *Error { return nil }

// failed explains an exceeded limit.
func (t *setTask) failed(s *session, report *frame.Failure, problem *Error) {
	if report.Large {
		limit := t.tooLarge(s)
		problem.Kind, problem.Message = limit.Kind, limit.Message
	}
}

// unavailable is the error of take.
func (t *setTask) unavailable() *Error {
	if t.err == nil {
		return nil
	}
	return &Error{Kind: Failed, Message: t.err.Error(), Err: t.err}
}

// setFiles is the files of a repository that an ApplicationSet reads. Unlike a
// tree.View it follows no links and records nothing.
type setFiles struct{ store tree.Store }

// Stat returns the entry of a path.
func (f setFiles) Stat(path string) (tree.Entry, error) { return f.store.Entry(path) }

// List returns the entries of a folder.
func (f setFiles) List(path string) ([]tree.Entry, error) { return f.store.List(path) }

// Read returns a file of parameters. The size is checked before anything is
// read.
func (f setFiles) Read(path string) ([]byte, error) {
	entry, err := f.store.Entry(path)
	if err == nil && entry.Size > generate.MaxFile {
		err = refusal.New(path, refusal.TooLarge, "a file of parameters has %d bytes, and may have %d: split it, or write a pattern that leaves it out", entry.Size, int64(generate.MaxFile))
	}
	if err != nil {
		return nil, err
	}
	return f.store.Read(path, generate.MaxFile)
}

// generate is the worker's side.
func (c *call) generate() error {
	var object map[string]any
	if err := utiljson.Unmarshal(c.job.Set, &object); err != nil {
		return err
	}
	set, _, err := v1alpha1.DecodeSet(object)
	if err != nil {
		return err
	}
	// The renderer ends the worker if it takes too long.
	applications, err := generate.Applications(context.Background(), set, &remoteFacts{call: c})
	if err != nil {
		return err
	}
	size := 0
	for _, application := range applications {
		object, err := application.Unstructured()
		if err != nil {
			return err
		}
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if size += len(text); int64(size) > c.job.OutputBytes {
			return manifest.ErrTooLarge
		}
		c.output = append(c.output, text)
	}
	return nil
}

// remoteFacts requests facts over the worker's pipe.
type remoteFacts struct{ call *call }

// Clusters requests clusters.
func (f *remoteFacts) Clusters(_ context.Context, selector labels.Selector) (found []generate.Cluster, err error) {
	return found, f.request(frame.Fleet, frame.FleetRequest{Selector: selector.String()}, &found)
}

// Repositories requests repositories of an owner.
func (f *remoteFacts) Repositories(_ context.Context, generator *v1alpha1.SCMProviderGenerator) (found []generate.Repository, err error) {
	return found, f.request(frame.Fetch, frame.FetchRequest{SCMProvider: generator}, &found)
}

// PullRequests requests pull requests.
func (f *remoteFacts) PullRequests(_ context.Context, generator *v1alpha1.PullRequestGenerator) (found []generate.PullRequest, err error) {
	return found, f.request(frame.Fetch, frame.FetchRequest{PullRequest: generator}, &found)
}

// Plugin requests the sets of a plugin.
func (f *remoteFacts) Plugin(_ context.Context, name string, generator *v1alpha1.PluginGenerator) (found []map[string]any, err error) {
	return found, f.request(frame.Fetch, frame.FetchRequest{Set: name, Plugin: generator}, &found)
}

// Decisions requests clusters that objects have chosen.
func (f *remoteFacts) Decisions(_ context.Context, generator *v1alpha1.DuckTypeGenerator) (found []generate.Decision, err error) {
	return found, f.request(frame.Fetch, frame.FetchRequest{Decision: generator}, &found)
}

// Tree requests the files of a repository.
func (f *remoteFacts) Tree(_ context.Context, repoURL, revision string) (tree.Store, string, error) {
	var opened frame.OpenedTree
	if err := f.request(frame.Tree, frame.TreeRequest{RepoURL: repoURL, Revision: revision}, &opened); err != nil {
		return nil, "", err
	}
	return remoteStore{&remoteFiles{call: f.call, source: opened.Source, responses: map[string]fileResponse{}}}, opened.Commit, nil
}

// request decodes the response to a request for facts.
func (f *remoteFacts) request(kind frame.Type, wanted, into any) error {
	got, err := f.call.request(kind, wanted)
	if err != nil {
		return err
	}
	switch got.kind {
	case frame.Facts:
		if err := json.Unmarshal(got.payload, into); err != nil {
			return f.call.broken(err)
		}
		return nil
	case frame.Refused:
		refused := &refusal.Refusal{}
		if err := json.Unmarshal(got.payload, refused); err != nil {
			return f.call.broken(err)
		}
		return errors.New(refused.Message)
	}
	return f.call.unexpected(got.kind)
}

// remoteStore is remoteFiles as a Store. The renderer enforces the limit.
type remoteStore struct{ *remoteFiles }

// Entry returns the entry of a path.
func (s remoteStore) Entry(path string) (tree.Entry, error) { return s.Stat(path) }

// Read returns the content of a file.
func (s remoteStore) Read(path string, _ int64) ([]byte, error) { return s.remoteFiles.Read(path) }
