"""Structured logs, one line an event; those of libraries have the same form."""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

Format = Literal["json", "console"]


def set_up(form: Format, level: str = "INFO") -> None:
    """Send all logs to standard error in one form; kopf's go through the same renderer."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: Processor
    if form == "json":
        last = structlog.processors.JSONRenderer()
        shared.append(structlog.processors.format_exc_info)
    else:
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # kopf logs every object and every connection at INFO.
    logging.getLogger("kopf").setLevel(logging.WARNING)
