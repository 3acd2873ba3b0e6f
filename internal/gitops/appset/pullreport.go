package appset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// The annotations of the template of previews.
const (
	// urlAnnotation is where a preview is served.
	urlAnnotation = "slipway.dev/preview-url"
	// numberAnnotation is the number of its pull request.
	numberAnnotation = "slipway.dev/preview-pull-request"
)

const (
	// maxReports bounds the comments of one run: others wait behind it.
	maxReports = 20
	// reportRetry is when a comment is tried again.
	reportRetry = time.Minute
	// maxRemovalReports is how often the comment of a preview is tried before the
	// preview is removed without it, and removalRetry when the next try is.
	maxRemovalReports = 3
	removalRetry      = 2 * time.Second
	// maxURL bounds the address of a preview.
	maxURL = 2048
)

// removedText is the comment of a preview that is gone.
const removedText = "The preview of this pull request was removed."

// reports are the comments that were written, by set and Application. After a
// restart each is compared with the one at the Git host, which has its key. It is
// safe for concurrent use.
type reports struct {
	mu      sync.Mutex
	written map[types.UID]map[string]string
	// problems is the last one of each set, which is reported once.
	problems map[types.UID]string
	// removals count failures to report the removal of an Application, or of a whole
	// set, by its UID.
	removals map[types.UID]int
}

// get returns what was written last.
func (r *reports) get(set types.UID, name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written[set][name]
}

// put notes a comment; an empty text forgets it.
func (r *reports) put(set types.UID, name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written == nil {
		r.written, r.problems = map[types.UID]map[string]string{}, map[types.UID]string{}
	}
	if r.written[set] == nil {
		r.written[set] = map[string]string{}
	}
	r.written[set][name] = text
	if text == "" {
		delete(r.written[set], name)
	}
}

// isNew reports whether a problem is another one than before; empty for none.
func (r *reports) isNew(set types.UID, problem string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.problems[set]
	if r.problems == nil {
		r.problems = map[types.UID]string{}
	}
	r.problems[set] = problem
	return problem != "" && problem != before
}

// giveUp reports whether to remove an Application or a set whose removal could not
// be reported again and again.
func (r *reports) giveUp(removed types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removals == nil {
		r.removals = map[types.UID]int{}
	}
	r.removals[removed]++
	last := r.removals[removed] >= maxRemovalReports
	if last {
		delete(r.removals, removed)
	}
	return last
}

// reported forgets the failures of an Application.
func (r *reports) reported(application types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.removals, application)
}

// drop forgets a set.
func (r *reports) drop(set types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, set)
	delete(r.problems, set)
	delete(r.removals, set)
}

// pullPreview is an Application with the address that it is served at.
type pullPreview struct {
	name, address string
	number        int64
}

// previewOf reads the annotations of an Application; false if it has none. The
// address has parts that the author of a pull request chose, such as the name of the
// branch, and becomes a part of Markdown.
func previewOf(name string, body []byte) (pullPreview, bool, error) {
	if !bytes.Contains(body, []byte(urlAnnotation)) {
		return pullPreview{}, false, nil
	}
	content, err := decodeBody(body)
	if err != nil {
		return pullPreview{}, false, err
	}
	annotations, _ := content["metadata"].(map[string]any)["annotations"].(map[string]any)
	address, _ := annotations[urlAnnotation].(string)
	given, _ := annotations[numberAnnotation].(string)
	if address == "" {
		return pullPreview{}, false, nil
	}
	number, err := strconv.ParseInt(given, 10, 64)
	if err != nil || number < 1 {
		return pullPreview{}, false, fmt.Errorf("application %s has the annotation %s, but %s is %.50q: write '{{.number}}' in the template", name, urlAnnotation, numberAnnotation, given)
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" || parsed.User != nil || len(address) > maxURL ||
		strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("<>()[]`\"\\", c) }) {
		return pullPreview{}, false, fmt.Errorf("application %s: the annotation %s is no address such as https://pr-1.example.com", name, urlAnnotation)
	}
	return pullPreview{name: name, address: address, number: number}, true, nil
}

// reportPreviews comments on the pull requests of previews that are ready. It
// returns when to look again, if not everything was written. A comment is no part of
// the state of the cluster: its failure does not fail the set.
func (c *Controller) reportPreviews(ctx context.Context, set *v1alpha1.ApplicationSet) time.Duration {
	owned, left := c.ownedBy(set), maxReports
	unguarded := c.hasPreviews(set) && !slices.Contains(set.Finalizers, CommentFinalizer)
	var problem error
	for _, name := range slices.Sorted(maps.Keys(owned)) {
		one := owned[name]
		if one.deleting || one.sync != v1alpha1.SyncSynced || one.health != v1alpha1.Healthy || !one.compared {
			continue
		}
		preview, wanted, err := previewOf(name, one.body)
		if err != nil {
			problem = errors.Join(problem, err)
		}
		if !wanted {
			continue
		}
		text := fmt.Sprintf("The preview of this pull request is at <%s>. It serves the commit %.12s.", preview.address, one.targets)
		if c.reports.get(set.UID, name) == text {
			continue
		}
		// The next run adds the finalizer, without which the comment would outlive a set
		// that is deleted.
		if unguarded {
			return time.Second
		}
		if left--; left < 0 {
			return time.Second
		}
		if err := c.comment(ctx, set, preview, PullRequestComment{Text: text}); err != nil {
			problem = errors.Join(problem, fmt.Errorf("application %s: comment on pull request %d: %w", name, preview.number, err))
			continue
		}
		c.reports.put(set.UID, name, text)
	}
	if problem == nil {
		c.reports.isNew(set.UID, "")
		return 0
	}
	if ctx.Err() == nil && c.reports.isNew(set.UID, problem.Error()) {
		c.options.Log.Warn("cannot report previews", "set", set.Namespace+"/"+set.Name, "error", problem)
		c.announce(ctx, set, passResult{reason: reasonReport, err: problem})
	}
	return reportRetry
}

// reportRemoved changes the comment of a preview that is about to be deleted, if there
// is one. The comment comes first: a process that is killed in between leaves the
// Application, by which the next process finds both. It returns false if the Application
// has to stay until the next try. A Git host that refuses comments does not keep it.
func (c *Controller) reportRemoved(ctx context.Context, set *v1alpha1.ApplicationSet, name string, known record) bool {
	c.reports.put(set.UID, name, "")
	preview, found, err := previewOf(name, known.body)
	if err != nil || !found {
		return true
	}
	err = c.comment(ctx, set, preview, PullRequestComment{Text: removedText, Known: true})
	if err == nil {
		c.reports.reported(known.uid)
		return true
	}
	if ctx.Err() != nil || !c.reports.giveUp(known.uid) {
		c.queue.AddAfter(types.NamespacedName{Namespace: set.Namespace, Name: set.Name}, removalRetry)
		return false
	}
	c.options.Log.Warn("cannot report that a preview is gone", "set", set.Namespace+"/"+set.Name, "application", name, "error", err)
	return true
}

// comment writes the comment of a preview with the credential of the generator.
func (c *Controller) comment(ctx context.Context, set *v1alpha1.ApplicationSet, preview pullPreview, comment PullRequestComment) error {
	generator, err := commentedRepository(set)
	if err != nil {
		return err
	}
	facts, err := c.factsOf(ctx, set)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	comment.Number, comment.Key = preview.number, "preview/"+set.Namespace+"/"+preview.name
	return facts.CommentPullRequest(ctx, generator, comment)
}

// commentedRepository returns the generator whose repository has the pull requests of
// a set.
func commentedRepository(set *v1alpha1.ApplicationSet) (*v1alpha1.PullRequestGenerator, error) {
	generators, _ := pullGenerators(set)
	if len(generators) != 1 || hostOf(generators[0]).address() == "" {
		return nil, errors.New("the set needs one generator pullRequest, whose repository has no parameters")
	}
	return generators[0], nil
}
