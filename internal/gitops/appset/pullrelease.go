package appset

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
)

// CommentFinalizer keeps an ApplicationSet that is deleted until the comments of its
// previews were changed, or could not be.
const CommentFinalizer = "slipway.dev/preview-comments"

// releaseTimeout bounds one try to change the comments of a set: a Git host that
// accepts connections and never responds takes a worker no longer than that.
const releaseTimeout = time.Minute

// hasPreviews reports whether the comment of an Application of the set can be written:
// one has the annotation of an address, and the set one repository.
func (c *Controller) hasPreviews(set *v1alpha1.ApplicationSet) bool {
	if _, err := commentedRepository(set); err != nil {
		return false
	}
	for _, one := range c.ownedBy(set) {
		if bytes.Contains(one.body, []byte(urlAnnotation)) {
			return true
		}
	}
	return false
}

// releaseComments changes the comments of the previews of a set that is being
// deleted, and then removes the finalizer for them. It returns true if the set has to
// stay until the next try. After maxRemovalReports tries without a comment that could
// be changed it goes: a Git host that is away for good must not keep it.
func (c *Controller) releaseComments(ctx context.Context, set *v1alpha1.ApplicationSet) (left bool, err error) {
	if !slices.Contains(set.Finalizers, CommentFinalizer) {
		return false, nil
	}
	if !keepsApplications(set) {
		changed, problem := c.changeComments(ctx, set)
		if problem != nil && (ctx.Err() != nil || changed > 0 || !c.reports.giveUp(set.UID)) {
			c.queue.AddAfter(types.NamespacedName{Namespace: set.Namespace, Name: set.Name}, removalRetry)
			return true, nil
		}
		if problem != nil {
			c.options.Log.Warn("cannot report that previews are gone", "set", set.Namespace+"/"+set.Name, "error", problem)
			c.announce(ctx, set, passResult{reason: reasonReport, err: fmt.Errorf("the set is deleted, and comments still lead to its previews: %w", problem)})
		}
	}
	return false, c.removeFinalizer(ctx, set, CommentFinalizer)
}

// changeComments changes the comments of those previews of a set for which that did not
// succeed before. It returns for how many it did, and the first problem.
func (c *Controller) changeComments(ctx context.Context, set *v1alpha1.ApplicationSet) (changed int, problem error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	owned := c.ownedBy(set)
	for _, name := range slices.Sorted(maps.Keys(owned)) {
		preview, found, err := previewOf(name, owned[name].body)
		// One whose annotations are wrong never had a comment.
		if err != nil || !found || c.reports.get(set.UID, name) == removedText {
			continue
		}
		if err := c.comment(ctx, set, preview, PullRequestComment{Text: removedText, Known: true}); err != nil {
			problem = cmp.Or(problem, fmt.Errorf("application %s: comment on pull request %d: %w", name, preview.number, err))
			continue
		}
		c.reports.put(set.UID, name, removedText)
		changed++
	}
	return changed, problem
}

// keepsApplications reports whether the Applications of a set that is being deleted
// stay, and with them what their comments lead to.
func keepsApplications(set *v1alpha1.ApplicationSet) bool {
	return slices.Contains(set.Finalizers, metav1.FinalizerOrphanDependents) ||
		slices.Contains(set.Finalizers, generate.Finalizer) && !policyOf(set).remove
}
