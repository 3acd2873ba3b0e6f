package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindEnvironment and ResourceEnvironment name the kind and its resource.
const (
	KindEnvironment     = "Environment"
	ResourceEnvironment = "environments"
)

// EnvironmentProduction is the type of environments for production.
const EnvironmentProduction = "PROD"

// Environment is a place that Applications deploy to, with the gates of promotions.
type Environment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EnvironmentSpec `json:"spec"`
}

// EnvironmentSpec has the clusters and namespaces of an environment.
type EnvironmentSpec struct {
	Type string `json:"type,omitempty" default:"NON_PROD" enum:"PROD,NON_PROD" description:"PROD for production, which PromotionPolicies can select."`
	// The Applications of another runtime are those that the platform knows, and their
	// repositories are read and written as by Applications of an AppProject here.
	Runtime string `json:"runtime,omitempty" maxLength:"253" description:"Name of another runtime of the account that has the Applications; by default the runtime of the agent."`
	Project string `json:"project,omitempty" maxLength:"253" description:"AppProject in the namespace of the Environment that allows the repositories of the Applications of another runtime; default if it is empty."`
	// Applications need no label for it: where they deploy to decides, so that an
	// Application cannot claim to be in another environment than it is.
	Destinations []EnvironmentDestination `json:"destinations" required:"true" minItems:"1" maxItems:"64" description:"The clusters and namespaces that the Applications of the environment deploy to."`
	Gates        *EnvironmentGates        `json:"gates,omitempty" description:"What a promotion waits for."`
}

// EnvironmentDestination selects Applications by their destination.
type EnvironmentDestination struct {
	Name       string   `json:"name,omitempty" maxLength:"253" description:"Name of the cluster; by default the cluster of the agent."`
	Server     string   `json:"server,omitempty" maxLength:"1024" description:"Address of the cluster, in place of its name."`
	Namespaces []string `json:"namespaces,omitempty" maxItems:"256" description:"The namespaces, as patterns with *; all if it is empty."`
}

// EnvironmentGates are conditions of promotions. Approval and windows come before
// anything is written, the others after it.
type EnvironmentGates struct {
	// Who may approve has the verb approve on this Environment.
	Approval bool              `json:"approval,omitempty" description:"Waits for the approval of a person who may approve the Environment."`
	Windows  []PromotionWindow `json:"windows,omitempty" maxItems:"32" description:"When promotions are written: while one of kind allow is open, if there are any, and none of kind deny."`
	// The time begins again if an Application is not Healthy in between.
	HealthyFor Duration     `json:"healthyFor,omitempty" description:"How long the Applications have to be Synced and Healthy before the next environment."`
	Traffic    *TrafficGate `json:"traffic,omitempty" description:"What the edges have to count before the next environment."`
}

// PromotionWindow is a time that comes again, as the sync windows of an AppProject.
type PromotionWindow struct {
	Kind     string `json:"kind" required:"true" enum:"allow,deny" description:"allow or deny."`
	Schedule string `json:"schedule" required:"true" maxLength:"256" description:"When it opens, as a cron schedule."`
	Duration string `json:"duration" required:"true" maxLength:"32" description:"How long it is open, such as 2h."`
	TimeZone string `json:"timeZone,omitempty" maxLength:"64" description:"Time zone of the schedule, such as Europe/Berlin; by default UTC."`
}

// TrafficGate is what the edges have to count on the routes of the Applications, from
// when they are Synced and Healthy.
type TrafficGate struct {
	For             Duration `json:"for" required:"true" description:"How long requests are counted."`
	MinRequests     int64    `json:"minRequests,omitempty" default:"1" minimum:"1" description:"Least number of requests. With fewer, counting goes on."`
	MaxErrorPercent int32    `json:"maxErrorPercent,omitempty" default:"1" minimum:"0" maximum:"100" description:"Share of responses with a status of 500 or more that is tolerated, in percent. With more, the promotion fails."`
}
