package promotion

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
)

const (
	// boardPage is the page size of lists.
	boardPage = 500
	// maxVersions bounds the versions that a Reader remembers.
	maxVersions = 4096
)

// Reader reads Promotions, and what is in the environments of Products, for those who
// show them. It reads in any replica, while the Controller runs in the leader alone, and
// has no watches: people look now and then. It writes nothing, and decides nothing about
// rights. It is safe for concurrent use.
type Reader struct {
	files
	// versions are read from files of commits, which do not change. A page that is
	// refreshed every few seconds costs no file and no project after the first time.
	versions *cache.LRU[versionKey, string]
}

// versionKey identifies what a version is read from.
type versionKey struct {
	app            types.UID
	repoURL, path  string
	revision       string
	file, jsonPath string
}

// NewReader returns a Reader. Without sources versions are not known.
func NewReader(cluster *kube.Cluster, sources *source.Sources, controlNamespace string) *Reader {
	return &Reader{
		files:    files{cluster, sources, controlNamespace},
		versions: cache.NewLRU[versionKey, string](cache.Limits{Bytes: maxVersions * maxVersion, Entries: maxVersions}),
	}
}

// Board is what there is at one moment.
type Board struct {
	// Products are sorted by name.
	Products []BoardProduct
	// Promotions are all of them, the newest first.
	Promotions []*slipway.Promotion
	catalog    catalog
}

// BoardProduct is a Product with its flows. Problem is why it cannot be promoted.
type BoardProduct struct {
	Name, Problem string
	Flows         []BoardFlow
}

// BoardFlow is a flow with its environments, the trigger environment first.
type BoardFlow struct {
	Name, Problem string
	Environments  []BoardEnvironment
}

// BoardEnvironment is an environment of a flow, with the Applications of the Product.
type BoardEnvironment struct {
	Name         string
	Production   bool
	DependsOn    []string
	Gates        []string
	Applications []*v1alpha1.Application
	// Runtime is the other runtime that has the Applications, which are not listed then;
	// empty for our own.
	Runtime string
}

// Read reads everything but the Applications, which list returns. It is not called if
// there is no Product and no Promotion: the lists of Applications are long.
func (r *Reader) Read(ctx context.Context, list func() ([]*v1alpha1.Application, error)) (*Board, error) {
	board := &Board{catalog: newCatalog()}
	if err := r.readCatalog(ctx, &board.catalog); err != nil {
		return nil, err
	}
	// An object that cannot be read is left out: one of a newer version must not hide the
	// others.
	err := r.each(ctx, promotionResource(), func(object *unstructured.Unstructured) {
		if made := (&slipway.Promotion{}); convert(object, made) == nil {
			board.Promotions = append(board.Promotions, made)
		}
	})
	if err != nil || len(board.catalog.products) == 0 && len(board.Promotions) == 0 {
		return board, err
	}
	// Times of creation have seconds. Names that were made here have the time, too.
	slices.SortStableFunc(board.Promotions, func(x, y *slipway.Promotion) int {
		return cmp.Or(y.CreationTimestamp.Compare(x.CreationTimestamp.Time), cmp.Compare(y.Name, x.Name))
	})
	apps, err := list()
	if err != nil {
		return nil, err
	}
	// All of them: an old Promotion has Applications that name another Product now.
	for _, app := range apps {
		board.catalog.apps[types.NamespacedName{Namespace: app.Namespace, Name: app.Name}] = app
	}
	for _, name := range slices.Sorted(maps.Keys(board.catalog.products)) {
		board.Products = append(board.Products, board.catalog.boardProduct(name))
	}
	return board, nil
}

// readCatalog lists the kinds that Promotions are made of. One that the cluster does not
// have is empty.
func (r *Reader) readCatalog(ctx context.Context, into *catalog) error {
	// Policies are missing: they decide how an environment is written, and nothing here
	// depends on that.
	for _, read := range []func() error{
		func() error {
			return eachParsed(ctx, r, v1beta1.ProductResource(), into.products, v1beta1.DecodeProduct)
		},
		func() error { return eachParsed(ctx, r, v1beta1.FlowResource(), into.flows, v1beta1.DecodeFlow) },
		func() error {
			return eachParsed(ctx, r, v1beta1.TemplateResource(), into.templates, v1beta1.DecodeTemplate)
		},
		func() error {
			return r.each(ctx, environmentResource(), func(object *unstructured.Unstructured) {
				if made := (&slipway.Environment{}); convert(object, made) == nil {
					into.environments[made.Name] = made
				}
			})
		},
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// eachParsed lists one of Codefresh's kinds.
func eachParsed[T any](ctx context.Context, r *Reader, resource schema.GroupVersionResource, into map[string]parsed[T], decode func(map[string]any) (T, []refusal.Refusal, error)) error {
	return r.each(ctx, resource, func(object *unstructured.Unstructured) {
		if made, refused, err := decode(object.Object); err == nil {
			into[object.GetName()] = parsed[T]{made, refused}
		}
	})
}

// each lists a kind in the control namespace, page by page.
func (r *Reader) each(ctx context.Context, resource schema.GroupVersionResource, take func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{Limit: boardPage}
	for {
		page, err := r.cluster.Dynamic.Resource(resource).Namespace(r.controlNamespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil // the definition is not installed
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			take(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// boardProduct is a Product with its flows.
func (c *catalog) boardProduct(name string) BoardProduct {
	made := BoardProduct{Name: name}
	product, err := lookUp(c.products, v1beta1.KindProduct, name)
	if err != nil {
		made.Problem = err.Error()
		return made
	}
	// The flows keep the order of the Product: the first one that is for a commit is used.
	for _, one := range product.Spec.PromotionFlows {
		made.Flows = append(made.Flows, c.boardFlow(name, one.Name))
	}
	if len(made.Flows) == 0 {
		made.Problem = "the Product names no PromotionFlow"
	}
	return made
}

// boardFlow is a flow with the environments that exist.
func (c *catalog) boardFlow(product, name string) BoardFlow {
	made := BoardFlow{Name: name}
	flow, err := lookUp(c.flows, v1beta1.KindPromotionFlow, name)
	if err != nil {
		made.Problem = err.Error()
		return made
	}
	// The trigger environment is no step of a flow, and people see it as the first one.
	steps := append([]v1beta1.FlowStep{{Environment: flow.Spec.TriggerEnvironment}}, flow.Spec.Steps...)
	for _, step := range steps {
		one := BoardEnvironment{Name: step.Environment, DependsOn: step.DependsOn}
		environment, err := c.environment(step.Environment)
		if err != nil {
			// The others are shown all the same: what is in them is true.
			made.Problem = cmp.Or(made.Problem, err.Error())
		} else {
			one.Production = environment.Spec.Type == slipway.EnvironmentProduction
			one.Runtime = environment.Spec.Runtime
			one.Gates, one.Applications = gateNames(environment.Spec.Gates), c.applications(product, environment)
		}
		made.Environments = append(made.Environments, one)
	}
	return made
}

// gateNames lists the gates of an environment that wait for something of their own.
func gateNames(gates *slipway.EnvironmentGates) (names []string) {
	if gates == nil {
		return nil
	}
	for name, isSet := range map[string]bool{
		"approval": gates.Approval, "windows": len(gates.Windows) > 0, "health": gates.HealthyFor > 0, "traffic": gates.Traffic != nil,
	} {
		if isSet {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Application returns an Application by its name in the status of a Promotion; nil if
// there is none.
func (b *Board) Application(key string) *v1alpha1.Application {
	app, err := b.catalog.application(key)
	if err != nil {
		return nil
	}
	return app
}

// NeedsApproval reports whether a step of a Promotion waits for an approval, or is going
// to.
func (b *Board) NeedsApproval(of *slipway.Promotion, step *slipway.PromotionStep) bool {
	// An approval may come before its turn, and never after the environment was written.
	if isFinished(of) || step.ApprovedBy != "" || step.Phase != slipway.StepPending && step.Phase != slipway.StepWaiting {
		return false
	}
	environment := b.catalog.environments[step.Environment]
	return environment != nil && environment.Spec.Gates != nil && environment.Spec.Gates.Approval && approvalOf(of, step.Environment) == ""
}

// approvalOf is who approved a Promotion for an environment; empty for none.
func approvalOf(of *slipway.Promotion, environment string) string {
	at := slices.IndexFunc(of.Spec.Approvals, func(one slipway.PromotionApproval) bool { return one.Environment == environment })
	if at < 0 {
		return ""
	}
	return of.Spec.Approvals[at].By
}

// ApprovedBy is who approved a step; empty for none.
func ApprovedBy(of *slipway.Promotion, step *slipway.PromotionStep) string {
	return cmp.Or(step.ApprovedBy, approvalOf(of, step.Environment))
}

// Arrival is how an Application got its version.
type Arrival struct {
	// Promotion is empty if it was another way.
	Promotion, By string
	Since         *metav1.Time
}

// Arrival returns how an Application of a Product got a version: by the newest Promotion
// that verified it there, or else by its last sync.
func (b *Board) Arrival(product, environment, version string, app *v1alpha1.Application) Arrival {
	key := keyText(app)
	// Promotions are sorted: the first one that fits is the newest. The version has to be
	// the same, because a person may have committed another one since.
	for _, one := range b.Promotions {
		if one.Spec.Product != product || version == "" || one.Status.Version != version {
			continue
		}
		for i := range one.Status.Steps {
			step := &one.Status.Steps[i]
			if step.Environment == environment && step.Phase == slipway.StepSucceeded && slices.Contains(step.Applications, key) {
				return Arrival{Promotion: one.Name, By: one.Spec.By, Since: step.FinishedAt}
			}
		}
	}
	// The sync may be a later one, with another change of the same environment. To find the
	// first with the version, each commit of the history would have to be read.
	if len(app.Status.History) == 0 {
		return Arrival{}
	}
	last := app.Status.History[len(app.Status.History)-1]
	made := Arrival{By: last.InitiatedBy.Username, Since: &last.DeployedAt}
	if last.InitiatedBy.Automated {
		made.By = ""
	}
	return made
}

// Version reads the version that an Application of a Product is synced to, by the
// versionSource of the template. It is empty if that is not known, such as without a
// versionSource: people see the commit then.
func (r *Reader) Version(ctx context.Context, board *Board, productName string, app *v1alpha1.Application) string {
	product, err := lookUp(board.catalog.products, v1beta1.KindProduct, productName)
	if err != nil || r.sources == nil || app.Status.Sync.Revision == "" || len(app.Spec.AllSources()) != 1 {
		return ""
	}
	contents, err := board.catalog.contents(product, app)
	if err != nil || contents.VersionSource == nil {
		return ""
	}
	from := app.Spec.AllSources()[0]
	key := versionKey{app.UID, from.RepoURL, from.Path, app.Status.Sync.Revision, contents.VersionSource.File, contents.VersionSource.JSONPath}
	if known, is := r.versions.Get(key); is {
		return known
	}
	// The project of the Application has to allow its repository, as for a sync: a version
	// must not be a way to read files of others.
	template, err := compileTemplate(contents)
	if err != nil {
		return ""
	}
	at, err := r.locate(ctx, app)
	if err != nil {
		return ""
	}
	// A server that is away is not remembered.
	read, err := r.readerAt(ctx, &at, app.Status.Sync.Revision)
	if err != nil {
		return ""
	}
	version := template.versionOf(read)
	r.versions.Add(key, version, maxVersion)
	return version
}
