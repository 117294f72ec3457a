"""What a network gains when stations answer for more than a number of their own, measured on the live simulator.

Sectors of a simulated city choose their handover thresholds slot by slot, and the users they send away arrive
somewhere else: nothing here is read from a log, what one sector does others feel. Every learner starts from the same
log of random thresholds, drawn on other traffic, and then runs the network on the same traffic. They differ in their
reward:

- *today*: nothing is learned, all sectors keep today's threshold;
- *cell*: the count of the capacity cell alone, which rises with every weak user that is sent away;
- *cell, neighbours w*: the same, w of the reward being that of the coverage cells its users fall to, which decide
  nothing and are told beside;
- *cell, floor*: the count of the capacity cell, with a floor under the share of the sector over all its carriers, a
  KPI with a posterior of its own;
- *sector*: the share of the sector over all its carriers, which counts the users wherever they end up;
- *sector, neighbours w*: the same, w of it being that of the sectors its users are most likely handed over to.

What counts is none of their rewards but the share of satisfied sessions of the whole network, over the last part of
the run, compared in pairs of runs on the same traffic. Beside it: the share of sectors below the floor in that time.

`plan` says what is played and who learns, `network` is the simulated city and what it counts, `learners` builds their
controllers, `playing` runs the network, `results` compares. The table and the figure of docs/your-data.md:

    python -m benchmarks.studies.neighbours --runs 10 --workers 2
"""
