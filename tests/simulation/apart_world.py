"""The world in which each machine has an add log of its own, and a process may start where the log of the last owner is not.

What was answered and is in no snapshot is then offered again from where the service says. Acknowledgements, cancels and new
deadlines that no snapshot knows are undone, however many they are; nothing else is.
"""

from dataclasses import replace

from tests.simulation.durable_world import DurableWorld
from tests.simulation.world import CALM


class ApartWorld(DurableWorld):
    log_is_apart = True

    def __init__(self, seed):
        super().__init__(seed)
        self.claims = True  # without claims, a dispatcher offers everything again after each open
        self.disks = [self.log]
        self.lost_with_log = set()  # acknowledged when a log was left behind: may come again
        self.log_was_left = False
        self.left_count = 0

    async def leave_the_log(self, *, to_new):
        """Let the next process start on another machine, a new one or one that had the tracker before."""
        self.note("leave the log")
        self.left_count += 1
        for task in [*self.calls, *self.polls]:  # the dispatcher opens anew, and takes no answer of the former owner
            task.cancel()
        known = [disk for disk in self.disks if disk is not self.log]
        if to_new or not known:
            self.log = self.made_log()
            await self.log.inner.start()
            self.disks.append(self.log)
        else:
            self.log = self.random.choice(known)
            self.log.plan = replace(CALM, seed=self.seed)
        # Whatever the other log has of this tracker is void.
        self.log.inner.consumed.clear()
        self.log.inner.tracked.clear()
        self.lost_with_log = set(self.acked)
        self.undone |= self.acked
        self.cancelled.clear()
        self.sent.clear()
        self.not_before.clear()
        self.last_move.clear()
        self.log_was_left = True

    def note_opened(self, opened):
        if self.log_was_left:
            self.answered = {each for each in self.answered if each in self.acked or each <= opened.offered_through}
            self.log_was_left = False

    def check_not_consumed(self, position):
        if position in self.lost_with_log and position in self.undone:
            return
        super().check_not_consumed(position)

    async def take_over(self):
        if self.random.random() < 0.5:
            await self.lose_answers_of_stores()
        self.note("take over")
        self.fenced.append((self.registry, self.host, self.epoch))
        self.count_effects()
        self.came_again.clear()
        await self.leave_the_log(to_new=True)
        await self.start()

    async def change_disks(self):
        if self.random.random() < 0.4:
            await self.leave_the_log(to_new=self.random.random() < 0.3)

    def offer_to_fenced(self):
        """Do nothing: a former owner answers from its own log, and the dispatcher has moved on."""

    async def close_fenced(self):
        for disk in self.disks:
            disk.plan = replace(CALM, seed=self.seed)
        await super().close_fenced()
