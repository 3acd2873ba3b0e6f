package plan

import (
	"cmp"
	"maps"
)

// Result is what became of a step, with Argo CD's names.
type Result string

// The results.
const (
	ResultSynced     Result = "Synced"
	ResultSyncFailed Result = "SyncFailed"
	ResultPruned     Result = "Pruned"
)

// Progress is how far a step is, with the names of Argo CD's operation phases.
type Progress string

// The progress of a step. Empty means that it has not been tried.
const (
	Pending Progress = ""
	// Started: its request is under way.
	Started   Progress = "Started"
	Running   Progress = "Running"
	Succeeded Progress = "Succeeded"
	Failed    Progress = "Failed"
)

// Health is how an object is, with Argo CD's names.
type Health string

// The codes of health. NoHealth is that of an object for which there is no rule,
// such as a ConfigMap: to exist is all it has to do.
const (
	NoHealth    Health = ""
	Healthy     Health = "Healthy"
	Suspended   Health = "Suspended"
	Progressing Health = "Progressing"
	Missing     Health = "Missing"
	Degraded    Health = "Degraded"
	Unknown     Health = "Unknown"
)

// Mark is what is known of one step. It is what an Application's status keeps,
// so that an operation goes on after a restart.
type Mark struct {
	Result   Result
	Progress Progress
	// Message is what was done, or why it failed.
	Message string
	// Detail is the state of the object while it is waited for, and why a resource
	// that was applied is Failed. It is not kept over a restart: what is waited
	// for is observed again, and results carry the reason of a failure as Message.
	Detail string
	// Clearing is set from when the deletion of an old hook was requested until
	// it is gone, Cleared from then on.
	Clearing bool
	Cleared  bool
}

// Reason is why a step failed.
func (m Mark) Reason() string { return cmp.Or(m.Detail, m.Message) }

// State is what has happened in an operation. It belongs to one goroutine.
// Nothing is taken back: a step that was healthy once is done.
type State struct {
	// Confirmed: a user confirmed the deletions that need it.
	Confirmed bool
	// Terminated: a user ended the operation.
	Terminated bool
	marks      map[StepID]Mark
}

// NewState is that of an operation that begins, or that goes on with marks that
// were kept. What was Started then has to be tried again.
func NewState(marks map[StepID]Mark) *State {
	state := &State{marks: map[StepID]Mark{}}
	for id, mark := range marks {
		if mark.Progress == Started {
			mark.Progress = Pending
		}
		mark.Clearing, mark.Detail = false, ""
		state.marks[id] = mark
	}
	return state
}

// Mark is what is known of a step.
func (s *State) Mark(id StepID) Mark { return s.marks[id] }

// Marks is a copy of all marks.
func (s *State) Marks() map[StepID]Mark { return maps.Clone(s.marks) }

func (s *State) change(id StepID, change func(*Mark)) {
	mark := s.marks[id]
	change(&mark)
	s.marks[id] = mark
}

// Start notes that the request of a step is under way. It is not handed out
// again.
func (s *State) Start(id StepID) {
	s.change(id, func(m *Mark) {
		if m.Progress == Pending {
			m.Progress = Started
		}
	})
}

// Applied notes that the API server accepted an object.
func (s *State) Applied(id StepID, message string) {
	s.change(id, func(m *Mark) { m.Result, m.Progress, m.Message = ResultSynced, Running, message })
}

// Deleted notes that the API server accepted the deletion of an object that is
// pruned. It may still be there.
func (s *State) Deleted(id StepID, message string) {
	s.change(id, func(m *Mark) { m.Result, m.Progress, m.Message = ResultPruned, Running, message })
}

// Refused notes that the API server did not accept a step.
func (s *State) Refused(id StepID, message string) {
	s.change(id, func(m *Mark) { m.Result, m.Progress, m.Message = ResultSyncFailed, Failed, message })
}

// Observe records the health of an object that was applied. It must be that of
// an object at least as new as the one in the response to the apply: an older
// one would be found healthy as it was before. That is what Argo CD sleeps for.
//
// A hook whose health is Unknown has failed, as in Argo CD. A deletion is done
// when the object is gone; Degraded means that this takes too long.
func (s *State) Observe(step *Step, health Health, message string) {
	s.change(step.StepID, func(m *Mark) {
		if m.Progress != Running {
			return
		}
		m.Detail = message
		switch {
		case step.Hook != nil && (health == Degraded || health == Unknown):
			m.Progress, m.Message, m.Detail = Failed, message, ""
		case health == Degraded:
			// What was done stays in Message: whether this fails the operation
			// depends on whether the plan waits for it.
			m.Progress = Failed
		case step.Action == Remove:
		case health == NoHealth || health == Healthy:
			m.Progress, m.Detail = Succeeded, ""
			if step.Hook != nil && message != "" {
				m.Message = message // a Job reports how it ended
			}
		}
	})
}

// Clearing notes that the deletion of an old hook was requested.
func (s *State) Clearing(id StepID) {
	s.change(id, func(m *Mark) {
		if m.Progress == Pending && !m.Cleared {
			m.Clearing = true
		}
	})
}

// Gone records that an object does not exist. For a prune that is the end, and
// for an old hook the signal that the new one can be created. A hook that is
// gone before it was seen to finish has failed: its result is not known. The
// event of a deletion carries the last state of the object, so a Job that its
// own time to live deletes is to be observed once more before it is gone.
func (s *State) Gone(step *Step) {
	s.change(step.StepID, func(m *Mark) {
		switch {
		case m.Progress == Running && step.Action == Remove:
			m.Progress, m.Detail = Succeeded, ""
		case m.Progress == Running && step.Hook != nil:
			m.Progress, m.Message, m.Detail = Failed, "it was deleted before it was seen to finish", ""
		case m.Progress == Running:
			m.Detail = "it was deleted by another client"
		case m.Progress == Pending && step.Hook != nil:
			m.Clearing, m.Cleared = false, true
		}
	})
}
